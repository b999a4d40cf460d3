#include "proto/net/allocator.h"

#include <climits>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace quantd {

std::string TuneAllocator() {
#ifdef __GLIBC__
  // By default glibc returns freed socket buffers to the kernel, and the next
  // call faults in every page again, which takes longer than gRPC itself. One
  // arena, because a secondary arena cannot hold a block of 64 MiB and would
  // map and unmap it for each call.
  std::string set;
  const auto try_set = [&set](const char* name, int parameter, int value) {
    const bool ok = mallopt(parameter, value) == 1;
    if (!set.empty()) set += ' ';
    set += std::string(name) + '=' +
           (ok ? std::to_string(value) : std::string("refused"));
    return ok;
  };
  try_set("arenas", M_ARENA_MAX, 1);
  // Some versions refuse more than 32 MiB.
  if (!try_set("mmap", M_MMAP_THRESHOLD, 1 << 30)) {
    try_set("mmap", M_MMAP_THRESHOLD, 32 << 20);
  }
  try_set("trim", M_TRIM_THRESHOLD, INT_MAX);
  try_set("top_pad", M_TOP_PAD, 64 << 20);
  return set;
#else
  return "default";
#endif
}

}  // namespace quantd
