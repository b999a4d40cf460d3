// Memory that two processes have in common, mapped so that pages of 2 MiB fit.
#ifndef QUANTD_PROTO_MEMORY_MAPPING_H_
#define QUANTD_PROTO_MEMORY_MAPPING_H_

#include <cstddef>

#include "absl/types/span.h"

namespace quantd::wire {

// All of a memfd, shared, from an address that large pages can begin at, which
// one that the system chooses often is not. To be ended by munmap. MAP_FAILED,
// with errno, where it cannot be. `protection` and `flags`: as of mmap.
void* MapShared(int memfd, size_t bytes, int protection, int flags = 0);

// Makes what can be of a new mapping of MapShared of large pages, also where
// the system does not do so by itself (shmem_enabled). There are hundreds of
// times fewer of them to make, for the other process to map, for a GPU to
// register and for a CPU to look up. Elsewhere, and before Linux 6.1, nothing
// happens.
void UseLargePages(absl::Span<std::byte> mapping);

// Makes all pages of a new mapping of this memfd that may be written, large
// ones first. False, with errno, where there is no memory for them.
bool Populate(int memfd, absl::Span<std::byte> mapping);

}  // namespace quantd::wire

#endif  // QUANTD_PROTO_MEMORY_MAPPING_H_
