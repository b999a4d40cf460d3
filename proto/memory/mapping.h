// Memory that two processes share, mapped so that pages of 2 MiB fit.
#ifndef QUANTD_PROTO_MEMORY_MAPPING_H_
#define QUANTD_PROTO_MEMORY_MAPPING_H_

#include <cstddef>

#include "absl/types/span.h"

namespace quantd::wire {

// Maps a whole memfd, shared, at an address where a large page can begin; the
// address that the system chooses often is not one. The caller unmaps it with
// munmap. MAP_FAILED, with errno set, on failure. `protection` and `flags` are
// those of mmap.
void* MapShared(int memfd, size_t bytes, int protection, int flags = 0);

// Turns as much as possible of a new mapping of MapShared into large pages,
// even if the system does not do so by itself (shmem_enabled). Then there are
// hundreds of times fewer pages to create, for the other process to map, for a
// GPU to register and for a CPU to look up. Does nothing before Linux 6.1 and
// on other systems.
void UseLargePages(absl::Span<std::byte> mapping);

// Allocates all pages of a new writable mapping of this memfd, large ones
// first. False, with errno set, if there is no memory for them.
bool Populate(int memfd, absl::Span<std::byte> mapping);

}  // namespace quantd::wire

#endif  // QUANTD_PROTO_MEMORY_MAPPING_H_
