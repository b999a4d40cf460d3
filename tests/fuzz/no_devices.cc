// Stubs of kernels/device for a server without a GPU. With them, the fuzzer of
// the memory socket is built without the arithmetic.
#include "kernels/device/device_memory.h"
#include "kernels/device/devices.h"

namespace quantd {

absl::StatusOr<std::unique_ptr<DeviceMapping>> DeviceMapping::Open(
    const DeviceHandle&, size_t) {
  return absl::NotFoundError("memory of a GPU: this machine has no GPU");
}

absl::StatusOr<std::unique_ptr<EventMapping>> EventMapping::Open(
    const DeviceHandle&) {
  return absl::NotFoundError("an event of a GPU: this machine has no GPU");
}

PageLock::PageLock(absl::Span<std::byte>, bool) {}
PageLock::~PageLock() = default;

}  // namespace quantd
