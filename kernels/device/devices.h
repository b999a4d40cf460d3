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

// Opens a device. `name` is "cpu", "cpu:N", "cuda", "cuda:N" or, for
// benchmarks, "memcpy": a CPU device that copies input bytes to the output
// instead of computing; or, for tests and drills, "fault:cpu:N..."
// (ParseFaultDevice). The last two are in no list, and are opened only by name.
// NOT_FOUND when there is no such device, INVALID_ARGUMENT for another name.
absl::StatusOr<std::unique_ptr<Backend>> OpenBackend(
    std::string_view name, const BackendOptions& options = {});

// Names of the real devices here: every CUDA device, then "cpu:0".
std::vector<std::string> ListBackends();

// Names of the devices to use by default: the CPU only if there is nothing
// better.
std::vector<std::string> DefaultBackends();

// Instruction sets that this CPU supports, best last ("baseline" is always
// there).
std::vector<std::string> ListCpuIsas();

// The reason why there is no CUDA backend; empty when there is one.
std::string CudaUnavailableReason();

// Page-locks memory of this process until destruction, so that devices can copy
// from it, and to it if writable, directly. Does nothing on a machine without
// such devices.
class PageLock {
 public:
  // The memory must outlive it.
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
