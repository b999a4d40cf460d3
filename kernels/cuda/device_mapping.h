// Memory and events of other processes on the GPUs of this one:
// DeviceMapping::Open and EventMapping::Open.
#ifndef QUANTD_KERNELS_CUDA_DEVICE_MAPPING_H_
#define QUANTD_KERNELS_CUDA_DEVICE_MAPPING_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/device/device_memory.h"

namespace quantd::cuda {

// Memory and events of that device may be opened from now on.
void Serve(int ordinal);

absl::StatusOr<std::unique_ptr<DeviceMapping>> OpenMapping(
    const DeviceHandle& handle, size_t size);
absl::StatusOr<std::unique_ptr<EventMapping>> OpenEvent(
    const DeviceHandle& handle);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_DEVICE_MAPPING_H_
