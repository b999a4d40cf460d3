// Admits calls to the devices of this process. A call waits in order of arrival
// until a device has memory for it.
//
// Unlike the server's gate (server/gate/gate.h), it knows no tenants or
// priorities and refuses nothing, because all calls belong to this process.
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

// Limits the bytes in use on each device. Thread-safe.
class Admission {
 public:
  Admission(size_t devices, size_t per_device);

  // Memory reserved for one call. The destructor releases it. Move-only.
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

  // Waits, in order of arrival, for memory on a device where the call needs the
  // fewest bytes. Among equal devices it takes the one with the least memory in
  // use. `needs` has the bytes needed on each device; the smallest number must
  // be at most per_device(). Returns nullopt at the deadline or when the call
  // is cancelled.
  std::optional<Room> Enter(absl::Span<const size_t> needs, Time deadline,
                            CallControl& control);

  size_t per_device() const { return per_device_; }

 private:
  const size_t per_device_;
  std::mutex mutex_;
  std::vector<size_t> used_;         // bytes in use, for each device
  size_t next_ = 0;                  // the device that wins a tie
  std::list<CallControl*> waiting_;  // in order of arrival
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_LOCAL_ADMISSION_H_
