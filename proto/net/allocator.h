// glibc's malloc, set for buffers that come and go by the megabyte.
#ifndef QUANTD_PROTO_NET_ALLOCATOR_H_
#define QUANTD_PROTO_NET_ALLOCATOR_H_

#include <string>

namespace quantd {

// Keeps freed memory and uses one arena, for the whole process. Must be called
// before the first thread starts and before the first large allocation. Returns
// what was set, for the log: "arenas=1 mmap=1073741824
// ...", or "default" where the C library has no such settings.
std::string TuneAllocator();

}  // namespace quantd

#endif  // QUANTD_PROTO_NET_ALLOCATOR_H_
