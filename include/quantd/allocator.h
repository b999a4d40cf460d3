// Allocator settings for programs that move large tensors.
#ifndef QUANTD_ALLOCATOR_H_
#define QUANTD_ALLOCATOR_H_

namespace quantd {

// Makes glibc's malloc keep freed memory instead of returning it to the kernel
// after every call, and use a single arena. With glibc's defaults a call that
// moves 64 MiB causes about ten thousand page faults, and the throughput of
// bulk calls falls to half or less.
//
// This affects the whole process: more memory stays resident, and threads that
// allocate small blocks contend for the arena. The library therefore never
// calls this function. A program whose work is bulk transfer, such as quantctl,
// should call it first in main, before any thread starts. Does nothing with
// another C library or a replaced malloc.
void TuneAllocatorForBulkTransfers();

}  // namespace quantd

#endif  // QUANTD_ALLOCATOR_H_
