#include "client/allocator.h"

#include <cstdlib>  // defines __GLIBC__
#include <limits>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace quantd {

void TuneAllocatorForBulkTransfers() {
#ifdef __GLIBC__
  // One arena: a secondary one cannot hold blocks of 64 MiB and would map
  // them anew every time.
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

}  // namespace quantd
