// The client's use of the CUDA driver: allocates GPU memory, and shares memory
// and events with other processes. The driver library is loaded on first use,
// so that programs run without CUDA and without a GPU.
#ifndef QUANTD_CLIENT_MEMORY_CUDA_DRIVER_H_
#define QUANTD_CLIENT_MEMORY_CUDA_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/memory/offer.h"

namespace quantd::client {

// A whole allocation of GPU memory.
struct CudaAllocation {
  absl::Span<std::byte> bytes;
  uint64_t id = 0;  // never reused within this process
};

// Thread-safe.
class CudaDriver {
 public:
  // Returns UNIMPLEMENTED if there is no driver or no GPU.
  static absl::StatusOr<const CudaDriver*> Get();

  // The allocation that contains `address`. Returns INVALID_ARGUMENT if that is
  // not GPU memory.
  absl::StatusOr<CudaAllocation> Find(const void* address) const;
  // The id of the allocation that contains `address`. nullopt if no allocation
  // does.
  std::optional<uint64_t> IdAt(const void* address) const;
  // Whether the allocation still exists.
  bool IsThere(const CudaAllocation& allocation) const;

  // The offer of an allocation to a server, and the file descriptor to send
  // with it. The caller owns the descriptor. It is -1 if the offer needs none.
  struct Exported {
    wire::Offer offer;
    int descriptor = -1;
  };
  // Returns INVALID_ARGUMENT for memory that cannot be shared: managed memory,
  // memory of a pool, and memory that cuMemCreate made for this process only.
  absl::StatusOr<Exported> Export(const CudaAllocation& allocation) const;

  // Returns an offer of `event`, a cudaEvent_t of GPU `ordinal`. Returns
  // INVALID_ARGUMENT if the event was not created for use between processes,
  // and NOT_FOUND if there is no such GPU.
  absl::StatusOr<wire::Offer> ExportEvent(int ordinal, void* event) const;

  // Returns RESOURCE_EXHAUSTED if the GPU has no memory left, and NOT_FOUND if
  // there is no such GPU.
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
