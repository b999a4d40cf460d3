// GPU memory of another process on this host, opened so that jobs use it like
// memory of this process. Also events of that process, which order its work
// relative to a job's.
#ifndef QUANTD_KERNELS_DEVICE_DEVICE_MEMORY_H_
#define QUANTD_KERNELS_DEVICE_DEVICE_MEMORY_H_

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace quantd {

// A handle with which the driver opens memory or an event of another process.
struct DeviceHandle {
  std::array<std::byte, 16> uuid = {};  // UUID of the GPU
  // A cudaIpcMemHandle_t or a cudaIpcEventHandle_t.
  std::array<std::byte, 64> ipc = {};
  // Descriptor of exported memory, used in place of `ipc`; not closed. -1:
  // none.
  int descriptor = -1;
};

// GPU memory, opened on construction and closed on destruction. Immutable; may
// be used from any thread.
class DeviceMapping {
 public:
  // Opens an allocation of `size` bytes for its GPU, if a backend of this
  // process uses that GPU. Otherwise opens it for another GPU of a backend that
  // can access the memory as a peer. NOT_FOUND if there is neither,
  // INVALID_ARGUMENT for a handle that cannot be opened, OUT_OF_RANGE if the
  // driver reports another size.
  static absl::StatusOr<std::unique_ptr<DeviceMapping>> Open(
      const DeviceHandle& handle, size_t size);
  virtual ~DeviceMapping() = default;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // The name of the backend, such as "cuda:1".
  const std::string& device() const { return device_; }
  // Whether the memory belongs to a GPU other than device(). Jobs then copy it.
  bool of_peer() const { return of_peer_; }

 protected:
  DeviceMapping(std::byte* data, size_t size, std::string device, bool of_peer)
      : data_(data),
        size_(size),
        device_(std::move(device)),
        of_peer_(of_peer) {}

 private:
  std::byte* const data_;
  const size_t size_;
  const std::string device_;
  const bool of_peer_;
};

// An event, opened on construction and closed on destruction. May be used from
// any thread.
class EventMapping {
 public:
  // Opens an event of a GPU that a backend has opened. Errors are those of
  // DeviceMapping::Open.
  static absl::StatusOr<std::unique_ptr<EventMapping>> Open(
      const DeviceHandle& handle);
  virtual ~EventMapping() = default;
  EventMapping(const EventMapping&) = delete;

  // Whether all work queued before the event was last recorded, by any process,
  // is done. True if it was never recorded. Never waits.
  virtual bool Passed() const = 0;
  // The event as a cudaEvent_t.
  virtual void* native() const = 0;
  // Name of the backend.
  const std::string& device() const { return device_; }

 protected:
  explicit EventMapping(std::string device) : device_(std::move(device)) {}

 private:
  const std::string device_;
};

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_DEVICE_MEMORY_H_
