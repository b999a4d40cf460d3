// Opens GPU memory and events of other processes. Implements
// DeviceMapping::Open and EventMapping::Open of kernels/device/device_memory.h.
#ifndef QUANTD_KERNELS_CUDA_DEVICE_MAPPING_H_
#define QUANTD_KERNELS_CUDA_DEVICE_MAPPING_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/device/device_memory.h"

namespace quantd::cuda {

// Allows memory and events of a device to be opened while this object lives.
class Served {
 public:
  explicit Served(int ordinal);
  ~Served();
  Served(const Served&) = delete;

 private:
  const int ordinal_;
};

absl::StatusOr<std::unique_ptr<DeviceMapping>> OpenMapping(
    const DeviceHandle& handle, size_t size);
absl::StatusOr<std::unique_ptr<EventMapping>> OpenEvent(
    const DeviceHandle& handle);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_DEVICE_MAPPING_H_
