// The client's use of the CUDA driver: allocates GPU memory and shares it, and
// events, with other processes. The driver is loaded on first use, so neither
// CUDA nor a GPU is needed otherwise.
#ifndef QUANTD_CLIENT_MEMORY_CUDA_DRIVER_H_
#define QUANTD_CLIENT_MEMORY_CUDA_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/memory/offer.h"

namespace quantd::client {

// A whole allocation.
struct CudaAllocation {
  absl::Span<std::byte> bytes;
  uint64_t id = 0;  // never reused within this process
};

// Thread-safe.
class CudaDriver {
 public:
  // UNIMPLEMENTED without a driver or a GPU.
  static absl::StatusOr<const CudaDriver*> Get();

  // The allocation that contains this address. INVALID_ARGUMENT if it is not
  // GPU memory.
  absl::StatusOr<CudaAllocation> Find(const void* address) const;
  // The id of the allocation that contains this address; nullopt if there is no
  // such allocation.
  std::optional<uint64_t> IdAt(const void* address) const;
  // Whether that allocation still exists.
  bool IsThere(const CudaAllocation& allocation) const;

  // An offer of the memory, and the descriptor to send with it, owned by the
  // caller, or -1. INVALID_ARGUMENT for memory that cannot be shared: managed,
  // from a pool, or made by cuMemCreate for this process only.
  struct Exported {
    wire::Offer offer;
    int descriptor = -1;
  };
  absl::StatusOr<Exported> Export(const CudaAllocation& allocation) const;

  // An offer of an event of that GPU, a cudaEvent_t. INVALID_ARGUMENT if it was
  // not created for use between processes, NOT_FOUND for another GPU.
  absl::StatusOr<wire::Offer> ExportEvent(int ordinal, void* event) const;

  // RESOURCE_EXHAUSTED if the GPU has no memory left, NOT_FOUND for another
  // GPU.
  absl::StatusOr<CudaAllocation> Allocate(int ordinal, size_t bytes) const;
  void Free(const CudaAllocation& allocation) const;

 private:
  struct Functions;
  explicit CudaDriver(const Functions* functions) : f_(functions) {}
  static absl::StatusOr<const CudaDriver*> Load();

  const Functions* const f_;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_MEMORY_CUDA_DRIVER_H_
