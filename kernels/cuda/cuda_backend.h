// The CUDA device: the backend contract over streams and pinned memory.
#ifndef QUANTD_KERNELS_CUDA_CUDA_BACKEND_H_
#define QUANTD_KERNELS_CUDA_CUDA_BACKEND_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/device/backend.h"

namespace quantd::cuda {

// The device "cuda:<ordinal>". NOT_FOUND when it is not there or cannot run
// this program's kernels. `options.memory_limit` bounds the pinned memory of
// payloads and, apart from it, their memory on the device.
//
// Once the device has faulted, its jobs and Begin return UNAVAILABLE.
absl::StatusOr<std::unique_ptr<Backend>> Open(int ordinal,
                                              const BackendOptions& options);

// How many devices there are; 0 when none can be used.
int DeviceCount();

// Why there is no usable device; empty when there is one.
std::string UnavailableReason();

// Page-locks memory of this process for all devices: what lies in it is copied
// without a detour. False where no device has been opened, or where the driver
// will not; then nothing has changed.
bool PageLock(void* memory, size_t bytes, bool writable);
void PageUnlock(void* memory);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_CUDA_BACKEND_H_
