#include "proto/memory/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace quantd::wire {
namespace {

constexpr size_t kLargePage = size_t{2} << 20;

// Constants that older headers lack.
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE of Linux 5.14
constexpr int kCollapse = 25;       // MADV_COLLAPSE of Linux 6.1

size_t RoundUp(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

void* MapShared(int memfd, size_t bytes, int protection, int flags) {
  flags |= MAP_SHARED;
  if (bytes < kLargePage || bytes > SIZE_MAX - 2 * kLargePage) {
    return mmap(nullptr, bytes, protection, flags, memfd, 0);
  }
  // Reserves more addresses than needed to align the mapping, then unmaps the
  // rest.
  const size_t used = RoundUp(bytes, static_cast<size_t>(getpagesize()));
  const size_t reserved = used + kLargePage;
  void* const found = mmap(nullptr, reserved, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) return MAP_FAILED;
  auto* const begin = static_cast<std::byte*>(found);
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const size_t before = RoundUp(address, kLargePage) - address;
  const size_t after = reserved - before - used;
  if (before > 0) munmap(begin, before);
  if (after > 0) munmap(begin + before + used, after);
  void* const mapped =
      mmap(begin + before, bytes, protection, flags | MAP_FIXED, memfd, 0);
  if (mapped == MAP_FAILED) munmap(begin + before, used);
  return mapped;
}

void UseLargePages(absl::Span<std::byte> mapping) {
  // Also lets the kernel make large pages later.
  madvise(mapping.data(), mapping.size(), MADV_HUGEPAGE);
  // The kernel can only collapse small pages that exist into a large page.
  const size_t large = mapping.size() / kLargePage * kLargePage;
  const auto page = static_cast<size_t>(getpagesize());
  for (size_t at = 0; at < large; at += kLargePage) {
    if (madvise(mapping.data() + at, page, kPopulateWrite) != 0) return;
  }
  if (large > 0) madvise(mapping.data(), large, kCollapse);
}

bool Populate(int memfd, absl::Span<std::byte> mapping) {
  UseLargePages(mapping);
  return madvise(mapping.data(), mapping.size(), kPopulateWrite) == 0 ||
         fallocate(memfd, 0, 0, static_cast<off_t>(mapping.size())) == 0;
}

}  // namespace quantd::wire
