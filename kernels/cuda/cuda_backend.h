// The CUDA backend: implements kernels/device/backend.h with CUDA streams and
// pinned memory.
#ifndef QUANTD_KERNELS_CUDA_CUDA_BACKEND_H_
#define QUANTD_KERNELS_CUDA_CUDA_BACKEND_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/device/backend.h"

namespace quantd::cuda {

// Opens the device "cuda:<ordinal>". Returns NOT_FOUND if it does not exist or
// cannot run this program's kernels. `options.memory_limit` is the limit, in
// bytes, of pinned memory for payloads and also the limit of device memory for
// them.
//
// Once the device has faulted, its jobs and Begin return UNAVAILABLE.
absl::StatusOr<std::unique_ptr<Backend>> Open(int ordinal,
                                              const BackendOptions& options);

// The number of usable devices.
int DeviceCount();

// The reason why there is no usable device; empty when there is one.
std::string UnavailableReason();

// Page-locks memory of this process, so that every device can copy it directly.
// Returns false and changes nothing if no device has been opened or the driver
// refuses.
bool PageLock(void* memory, size_t bytes, bool writable);
// Undoes PageLock.
void PageUnlock(void* memory);

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_CUDA_BACKEND_H_
