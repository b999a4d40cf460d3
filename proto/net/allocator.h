// Settings of glibc's malloc for large, short-lived buffers.
#ifndef QUANTD_PROTO_NET_ALLOCATOR_H_
#define QUANTD_PROTO_NET_ALLOCATOR_H_

#include <string>

namespace quantd {

// Keeps freed memory and uses one arena, for the whole process. Must be called
// before the first thread starts and before the first large allocation. Returns
// the settings that took effect, for the log: "arenas=1 mmap=1073741824 ...",
// or "default" if the C library has no such settings.
std::string TuneAllocator();

}  // namespace quantd

#endif  // QUANTD_PROTO_NET_ALLOCATOR_H_
