// Admission of calls to the devices of this process: a call is admitted or
// waits in order.
//
// Unlike the server's gate (server/gate/gate.h) it has no shares and priorities
// and refuses nothing, since all calls are this process's own.
#ifndef QUANTD_CLIENT_LOCAL_ADMISSION_H_
#define QUANTD_CLIENT_LOCAL_ADMISSION_H_

#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "client/call/call_control.h"

namespace quantd::client {

// Thread-safe.
class Admission {
 public:
  Admission(size_t devices, size_t per_device);

  // Memory held by one call, given back on destruction. Move-only.
  class Room {
   public:
    Room(Room&& other) noexcept
        : admission_(std::exchange(other.admission_, nullptr)),
          device_(other.device_),
          bytes_(other.bytes_) {}
    ~Room();
    int device() const { return device_; }

   private:
    friend class Admission;
    Room(Admission* admission, int device, size_t bytes)
        : admission_(admission), device_(device), bytes_(bytes) {}
    Admission* admission_;
    int device_;
    size_t bytes_;
  };

  // Waits, in order of arrival, for room on the device that needs the fewest
  // bytes; among equals, on the one with the most room. `needs` has a number
  // for each device, and the least must be at most per_device(). nullopt at the
  // deadline, or if the call is cancelled.
  std::optional<Room> Enter(absl::Span<const size_t> needs, Time deadline,
                            CallControl& control);

  size_t per_device() const { return per_device_; }

 private:
  const size_t per_device_;
  std::mutex mutex_;
  std::vector<size_t> used_;         // of each device
  size_t next_ = 0;                  // breaks ties in turn
  std::list<CallControl*> waiting_;  // in order of arrival
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_LOCAL_ADMISSION_H_
