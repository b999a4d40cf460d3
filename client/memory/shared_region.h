// A piece of memory, of this process's or of a GPU's, or an event of a GPU,
// that is shared with a server, as often as it must be shared again.
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
  // New memory, populated by this process. RESOURCE_EXHAUSTED if memory is
  // exhausted; errors of DoorConnection::Share.
  static Made Allocate(size_t bytes, const DoorAddress& door);
  // All of a sealed and populated memfd, which the caller has mapped. The
  // descriptor is not needed any more when it returns, the mapping is.
  static Made Adopt(int memfd, absl::Span<std::byte> mapping, HostUse use,
                    const DoorAddress& door);
  // New memory of a GPU; and the allocation of one that has this address, which
  // must stay until the region is gone. Errors besides: CudaDriver's.
  static Made AllocateDevice(int ordinal, size_t bytes,
                             const DoorAddress& door);
  static Made AdoptDevice(const void* address, const DoorAddress& door);
  // No memory: an event of a GPU, which must stay until the region is gone.
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

  // The connection by which it is shared now; a new one where the last was
  // lost, which is tried once a second, by one thread, for so long. nullptr: it
  // is not shared.
  std::shared_ptr<DoorConnection> Connection(
      std::chrono::milliseconds patience);
  // The server does not know it by that connection, or not any more.
  void Lose(const std::shared_ptr<DoorConnection>& connection);
  // A call by that connection ended, and the server may not have ended it:
  // waits until it has.
  void Settle(const std::shared_ptr<DoorConnection>& connection);

 private:
  using Clock = std::chrono::steady_clock;
  // Owns the descriptor, and where `owns` the memory.
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
  // A server that does not answer may still write to it: it is shared no more.
  bool given_up_ = false;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_MEMORY_SHARED_REGION_H_
