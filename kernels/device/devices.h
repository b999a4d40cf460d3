// Opens and lists devices by name.
#ifndef QUANTD_KERNELS_DEVICE_DEVICES_H_
#define QUANTD_KERNELS_DEVICE_DEVICES_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/device/backend.h"

namespace quantd {

// Opens a device. `name` is "cpu", "cpu:N", "cuda" or "cuda:N". For benchmarks
// it may be "memcpy", a CPU device that copies input bytes to the output
// instead of computing; for tests of failures it may be "fault:cpu:N..."
// (ParseFaultDevice). These two are never listed. NOT_FOUND if the device does
// not exist, INVALID_ARGUMENT for another name.
absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(
    std::string_view name, const BackendOptions& options = {});

// The names of this machine's devices: every CUDA device, then "cpu:0".
std::vector<std::string> ListBackends();

// The names of the devices to use by default: all CUDA devices, or else the
// CPU.
std::vector<std::string> DefaultBackends();

// The instruction sets that this CPU supports, from "baseline" to the fastest.
std::vector<std::string> ListCpuIsas();

// The reason why there is no CUDA backend; empty when there is one.
std::string CudaUnavailableReason();

// Page-locks memory of this process until destruction, so that GPUs can copy
// directly from it and, if it is writable, to it. Does nothing on a machine
// without GPUs.
class PageLock {
 public:
  // The memory must outlive this object.
  PageLock(absl::Span<std::byte> memory, bool writable);
  ~PageLock();
  PageLock(const PageLock&) = delete;
  PageLock& operator=(const PageLock&) = delete;
  bool held() const { return memory_ != nullptr; }

 private:
  void* memory_ = nullptr;
};

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_DEVICES_H_
