// The CUDA device: the backend contract over streams and pinned memory.
#ifndef QUANTD_KERNELS_CUDA_CUDA_BACKEND_H_
#define QUANTD_KERNELS_CUDA_CUDA_BACKEND_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/device/backend.h"

namespace quantd::cuda {

// Opens the device "cuda:<ordinal>". NOT_FOUND if it does not exist or cannot
// run this program's kernels. `options.memory_limit` bounds the pinned memory
// of payloads and, separately, their memory on the device.
//
// Once the device has faulted, its jobs and Begin return UNAVAILABLE.
absl::StatusOr<std::unique_ptr<Backend>> Open(int ordinal,
                                              const BackendOptions& options);

// The number of usable devices.
int DeviceCount();

// The reason why there is no usable device; empty when there is one.
std::string UnavailableReason();

// Page-locks memory of this process for all devices, so that they copy it
// directly. False, with nothing changed, if no device has been opened or the
// driver refuses.
bool PageLock(void* memory, size_t bytes, bool writable);
void PageUnlock(void* memory);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_CUDA_BACKEND_H_
