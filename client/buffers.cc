#include "quantd/buffers.h"

#include "fmt/format.h"
#include "quantd/result.h"

namespace quantd {

absl::StatusOr<HostMemory> HostMemory::Ordinary(size_t bytes) {
  const auto memory = std::make_shared<AlignedBytes>(bytes);
  if (memory->span().size() != bytes) {
    return absl::ResourceExhaustedError(
        fmt::format("no memory for {} bytes", bytes));
  }
  return HostMemory(memory->span(), memory, false);
}

}  // namespace quantd
