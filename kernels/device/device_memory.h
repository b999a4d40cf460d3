// Memory of a GPU that another process of this host lends: opened here, where
// jobs work in it as in memory of this process's.
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
  std::array<std::byte, 64> ipc = {};   // a cudaIpcMemHandle_t
  // In its place the descriptor of exported memory, which is not closed; -1.
  int descriptor = -1;
};

// Opened on construction, closed on destruction. Immutable; any thread.
class DeviceMapping {
 public:
  // Opens an allocation of `size` bytes on its GPU, which a backend of this
  // process must have opened before. NOT_FOUND for another one,
  // INVALID_ARGUMENT for a handle that cannot be opened, OUT_OF_RANGE for one
  // of another size than the driver says.
  static absl::StatusOr<std::unique_ptr<DeviceMapping>> Open(
      const DeviceHandle& handle, size_t size);
  virtual ~DeviceMapping() = default;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // The backend's name: "cuda:1".
  const std::string& device() const { return device_; }

 protected:
  DeviceMapping(std::byte* data, size_t size, std::string device)
      : data_(data), size_(size), device_(std::move(device)) {}

 private:
  std::byte* const data_;
  const size_t size_;
  const std::string device_;
};

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_DEVICE_MEMORY_H_
