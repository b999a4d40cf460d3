// Memory of a GPU that another process of this host lends: opened here, where
// jobs work in it as in memory of this process's. And events of such a process,
// by which its work and a job's come one after the other.
#ifndef QUANTD_KERNELS_DEVICE_DEVICE_MEMORY_H_
#define QUANTD_KERNELS_DEVICE_DEVICE_MEMORY_H_

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace quantd {

// How the driver knows it in other processes.
struct DeviceHandle {
  std::array<std::byte, 16> uuid = {};  // of the GPU
  // A cudaIpcMemHandle_t, or a cudaIpcEventHandle_t.
  std::array<std::byte, 64> ipc = {};
  // In its place the descriptor of exported memory, which is not closed; -1.
  int descriptor = -1;
};

// Opened on construction, closed on destruction. Immutable; any thread.
class DeviceMapping {
 public:
  // Opens an allocation of `size` bytes for its GPU, if a backend of this
  // process has opened that, or for one which a backend has opened and which
  // may access that one's memory: a peer. NOT_FOUND where there is neither,
  // INVALID_ARGUMENT for a handle that cannot be opened, OUT_OF_RANGE for one
  // of another size than the driver says.
  static absl::StatusOr<std::unique_ptr<DeviceMapping>> Open(
      const DeviceHandle& handle, size_t size);
  virtual ~DeviceMapping() = default;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // The backend's name: "cuda:1".
  const std::string& device() const { return device_; }
  // Whether it is memory of another GPU than that: jobs copy it.
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

// Opened on construction, closed on destruction. Any thread.
class EventMapping {
 public:
  // Opens an event of a GPU that a backend has opened, like
  // DeviceMapping::Open.
  static absl::StatusOr<std::unique_ptr<EventMapping>> Open(
      const DeviceHandle& handle);
  virtual ~EventMapping() = default;
  EventMapping(const EventMapping&) = delete;

  // Whether all has been done that was queued before it was last recorded, by
  // whatever process. True before it is ever recorded. Never waits.
  virtual bool Passed() const = 0;
  // The event as streams of its device take it: a cudaEvent_t.
  virtual void* native() const = 0;
  // The backend's name.
  const std::string& device() const { return device_; }

 protected:
  explicit EventMapping(std::string device) : device_(std::move(device)) {}

 private:
  const std::string device_;
};

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_DEVICE_MEMORY_H_
