// Mapping of memory that two processes share, aligned for pages of 2 MiB.
#ifndef QUANTD_PROTO_MEMORY_MAPPING_H_
#define QUANTD_PROTO_MEMORY_MAPPING_H_

#include <cstddef>

#include "absl/types/span.h"

namespace quantd::wire {

// Maps a whole memfd, shared, at an address that is aligned for large pages;
// the address that the system chooses often is not. The caller unmaps it with
// munmap. MAP_FAILED, with errno set, on failure. `protection` and `flags` are
// those of mmap.
void* MapShared(int memfd, size_t bytes, int protection, int flags = 0);

// Turns as much as possible of a new mapping from MapShared into large pages,
// even if the system setting shmem_enabled does not. There are then hundreds of
// times fewer pages to create, to map in the other process, to register with a
// GPU and to look up in a CPU's page tables. Before Linux 6.1 and on
// other systems that setting decides whether pages become large.
void UseLargePages(absl::Span<std::byte> mapping);

// Allocates all pages of a new writable mapping of this memfd, large pages
// first. Returns false, with errno set, if there is not enough memory.
bool Populate(int memfd, absl::Span<std::byte> mapping);

}  // namespace quantd::wire

#endif  // QUANTD_PROTO_MEMORY_MAPPING_H_
