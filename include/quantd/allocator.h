// Allocator settings for programs that move large tensors.
#ifndef QUANTD_ALLOCATOR_H_
#define QUANTD_ALLOCATOR_H_

namespace quantd {

// Tells glibc's malloc to keep freed memory instead of giving it back to the
// kernel after every call, and to use one arena. With the defaults each
// 64 MiB call pays about ten thousand page faults, and the throughput of bulk
// calls falls to a half or less.
//
// It changes the whole process: more memory stays resident, and many threads
// that allocate small blocks contend on the one arena. So the library never
// calls it by itself; a program whose work is bulk transfer (quantctl does)
// calls it as the first thing in main, before any thread starts. Does nothing
// under another C library or a replaced malloc.
void TuneAllocatorForBulkTransfers();

}  // namespace quantd

#endif  // QUANTD_ALLOCATOR_H_
