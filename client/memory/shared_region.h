// Host memory, GPU memory or a GPU event that is shared with a server. It is
// shared again when the connection to the server was lost.
#ifndef QUANTD_CLIENT_MEMORY_SHARED_REGION_H_
#define QUANTD_CLIENT_MEMORY_SHARED_REGION_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/memory/cuda_driver.h"
#include "client/memory/door_connection.h"
#include "proto/memory/offer.h"
#include "quantd/buffers.h"

namespace quantd::client {

// Thread-safe. All functions that create a region also return errors of
// DoorConnection::Share.
class SharedRegion {
 public:
  using Made = absl::StatusOr<std::shared_ptr<SharedRegion>>;
  // Allocates host memory, including all its pages. Returns RESOURCE_EXHAUSTED
  // if memory is exhausted.
  static Made Allocate(size_t bytes, const DoorAddress& door);
  // Shares a whole memfd that is sealed and populated, and that the caller has
  // mapped. The mapping must outlive the region. The descriptor may be closed.
  static Made Adopt(int memfd, absl::Span<std::byte> mapping, HostUse use,
                    const DoorAddress& door);
  // Allocate GPU memory, or share the allocation that contains `address`, which
  // must outlive the region. Both also return errors of CudaDriver.
  static Made AllocateDevice(int ordinal, size_t bytes,
                             const DoorAddress& door);
  static Made AdoptDevice(const void* address, const DoorAddress& door);
  // Shares a GPU event, which must outlive the region.
  static Made AdoptEvent(int ordinal, void* event, const DoorAddress& door);
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;

  absl::Span<std::byte> bytes() const { return bytes_; }
  bool writable() const { return !offer_.read_only; }
  // Whether the region is host memory.
  bool on_host() const { return !device_; }
  // Whether a server that did not answer may still write to the region.
  bool given_up() const {
    const std::lock_guard lock(mutex_);
    return given_up_;
  }

  // Returns the connection that shares the region. A lost connection is
  // replaced by one thread, at most once a second and within `patience`.
  // Returns nullptr if the region is not shared.
  std::shared_ptr<DoorConnection> Connection(
      std::chrono::milliseconds patience);
  // Records that the server does not know the region of `connection`.
  void Lose(const std::shared_ptr<DoorConnection>& connection);
  // Ends sharing after a call without an answer. Waits until the server no
  // longer uses the region; after the timeout, given_up() is true.
  void Settle(const std::shared_ptr<DoorConnection>& connection);

 private:
  using Clock = std::chrono::steady_clock;
  // Takes ownership of the descriptor and, if `owns`, of the memory.
  SharedRegion(const wire::Offer& offer, int descriptor,
               absl::Span<std::byte> bytes, bool owns, const DoorAddress& door)
      : offer_(offer),
        descriptor_(descriptor),
        bytes_(bytes),
        owns_(owns),
        door_(door) {}
  static Made ShareDevice(const CudaDriver& driver,
                          const CudaAllocation& allocation, bool owns,
                          const DoorAddress& door);
  absl::StatusOr<std::shared_ptr<DoorConnection>> Share(
      std::chrono::milliseconds patience) const;
  static Made Shared(std::shared_ptr<SharedRegion> region);

  const wire::Offer offer_;
  const int descriptor_;  // or -1
  const absl::Span<std::byte> bytes_;
  const bool owns_;
  const DoorAddress door_;
  std::optional<CudaAllocation> device_;

  mutable std::mutex mutex_;
  std::shared_ptr<DoorConnection> connection_;
  bool sharing_ = false;  // a thread is making a connection
  Clock::time_point next_try_;
  // Set if a server that does not answer may still write to the region. The
  // region is not shared again.
  bool given_up_ = false;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_MEMORY_SHARED_REGION_H_
