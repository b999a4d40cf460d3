// What a client asks of CUDA's driver: to allocate memory of a GPU and to lend
// it, and events, to other processes. The driver is looked for when it is first
// asked, so that neither CUDA nor a GPU is needed for anything else.
#ifndef QUANTD_CLIENT_MEMORY_CUDA_DRIVER_H_
#define QUANTD_CLIENT_MEMORY_CUDA_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/memory/offer.h"

namespace quantd::client {

// An allocation as a whole.
struct CudaAllocation {
  absl::Span<std::byte> bytes;
  uint64_t id = 0;  // no other allocation of this process ever has it
};

// Thread-safe.
class CudaDriver {
 public:
  // UNIMPLEMENTED where there is no driver or no GPU.
  static absl::StatusOr<const CudaDriver*> Get();

  // The allocation that has this address. INVALID_ARGUMENT: it is no GPU's.
  absl::StatusOr<CudaAllocation> Find(const void* address) const;
  // The id of the allocation that has this address; nullopt: none has.
  std::optional<uint64_t> IdAt(const void* address) const;
  // Whether that allocation is still the one at its address.
  bool IsThere(const CudaAllocation& allocation) const;

  // An offer of it, and the descriptor that goes with it, the caller's to
  // close, or -1. INVALID_ARGUMENT for memory that cannot be lent: managed, of
  // a pool, or made by cuMemCreate for this process alone.
  struct Exported {
    wire::Offer offer;
    int descriptor = -1;
  };
  absl::StatusOr<Exported> Export(const CudaAllocation& allocation) const;

  // An offer of an event of that GPU, a cudaEvent_t. INVALID_ARGUMENT for one
  // that was not made for other processes, NOT_FOUND for another GPU.
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
