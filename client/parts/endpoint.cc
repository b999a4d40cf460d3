#include "client/parts/endpoint.h"

#include <sys/mman.h>

#include "fmt/format.h"

namespace quantd::client {

absl::StatusOr<HostMemory> Endpoint::AllocateHost(size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        fmt::format("no memory of {} bytes", bytes));
  }
  // Fewer, larger pages where the system has them; only a hint.
  madvise(data, bytes, MADV_HUGEPAGE);
  std::shared_ptr<const void> owner(
      data, [bytes](void* mapped) { munmap(mapped, bytes); });
  return HostMemory({static_cast<std::byte*>(data), bytes}, std::move(owner),
                    false);
}

absl::StatusOr<HostMemory> Endpoint::RegisterHost(int,
                                                  absl::Span<std::byte> mapping,
                                                  HostUse) {
  return HostMemory(mapping, nullptr, false);
}

}  // namespace quantd::client
