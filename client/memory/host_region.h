// A piece of this process's memory that is shared with a server, as often as it
// must be shared again.
#ifndef QUANTD_CLIENT_MEMORY_HOST_REGION_H_
#define QUANTD_CLIENT_MEMORY_HOST_REGION_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/host_memory.h"
#include "client/memory/door_connection.h"

namespace quantd::client {

// Thread-safe.
class HostRegion {
 public:
  using Made = absl::StatusOr<std::shared_ptr<HostRegion>>;
  // New memory, populated by this process. RESOURCE_EXHAUSTED where there is
  // none; errors of DoorConnection::Share.
  static Made Allocate(size_t bytes, const DoorAddress& door);
  // All of a sealed and populated memfd, which the caller has mapped. The
  // descriptor is not needed any more when it returns, the mapping is.
  static Made Adopt(int memfd, absl::Span<std::byte> mapping, HostUse use,
                    const DoorAddress& door);
  ~HostRegion();
  HostRegion(const HostRegion&) = delete;

  absl::Span<std::byte> bytes() const { return bytes_; }
  bool writable() const { return use_ == HostUse::kReadWrite; }

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
  HostRegion(int memfd, absl::Span<std::byte> bytes, bool owns_mapping,
             HostUse use, const DoorAddress& door)
      : memfd_(memfd),
        bytes_(bytes),
        owns_mapping_(owns_mapping),
        use_(use),
        door_(door) {}
  absl::StatusOr<std::shared_ptr<DoorConnection>> Share(
      std::chrono::milliseconds patience) const;
  absl::Status ShareFirst();

  const int memfd_;
  const absl::Span<std::byte> bytes_;
  const bool owns_mapping_;
  const HostUse use_;
  const DoorAddress door_;

  std::mutex mutex_;
  std::shared_ptr<DoorConnection> connection_;
  bool sharing_ = false;  // a thread is about to make one
  Clock::time_point next_try_;
  // A server that does not answer may still write to it: it is shared no more.
  bool given_up_ = false;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_MEMORY_HOST_REGION_H_
