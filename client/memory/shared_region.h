// Host memory, GPU memory or a GPU event that is shared with a server, and
// shared again when the connection is lost.
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

// Thread-safe.
class SharedRegion {
 public:
  using Made = absl::StatusOr<std::shared_ptr<SharedRegion>>;
  // Allocates memory, populated by this process. RESOURCE_EXHAUSTED if memory
  // is exhausted; errors of DoorConnection::Share.
  static Made Allocate(size_t bytes, const DoorAddress& door);
  // Shares a whole sealed and populated memfd that the caller has mapped. The
  // mapping must outlive the region; the descriptor need not.
  static Made Adopt(int memfd, absl::Span<std::byte> mapping, HostUse use,
                    const DoorAddress& door);
  // Allocate GPU memory, or share an existing allocation with this address,
  // which must outlive the region. Also errors of CudaDriver.
  static Made AllocateDevice(int ordinal, size_t bytes,
                             const DoorAddress& door);
  static Made AdoptDevice(const void* address, const DoorAddress& door);
  // Shares a GPU event, which must outlive the region.
  static Made AdoptEvent(int ordinal, void* event, const DoorAddress& door);
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;

  absl::Span<std::byte> bytes() const { return bytes_; }
  bool writable() const { return !offer_.read_only; }
  // Whether the host can read it.
  bool on_host() const { return !device_; }
  // Whether a server that did not answer may still write to it.
  bool given_up() const {
    const std::lock_guard lock(mutex_);
    return given_up_;
  }

  // The connection by which it is shared. A lost one is replaced: at most once
  // a second, by one thread, within `patience`. nullptr: it is not shared.
  std::shared_ptr<DoorConnection> Connection(
      std::chrono::milliseconds patience);
  // Records that the server does not, or no longer, know the region by that
  // connection.
  void Lose(const std::shared_ptr<DoorConnection>& connection);
  // After a call that the server may not have ended: waits until it has.
  void Settle(const std::shared_ptr<DoorConnection>& connection);

 private:
  using Clock = std::chrono::steady_clock;
  // Owns the descriptor and, if `owns`, the memory.
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
  bool sharing_ = false;  // a thread is about to make one
  Clock::time_point next_try_;
  // A server that does not answer may still write to it, so it is not shared
  // again.
  bool given_up_ = false;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_MEMORY_SHARED_REGION_H_
