// What a server without a GPU has of kernels/device, so that the door is built
// for the fuzzer without the arithmetic.
#include "kernels/device/device_memory.h"
#include "kernels/device/devices.h"

namespace quantd {

absl::StatusOr<std::unique_ptr<DeviceMapping>> DeviceMapping::Open(
    const DeviceHandle&, size_t) {
  return absl::NotFoundError("memory of a GPU: there is none here");
}

absl::StatusOr<std::unique_ptr<EventMapping>> EventMapping::Open(
    const DeviceHandle&) {
  return absl::NotFoundError("an event of a GPU: there is none here");
}

PageLock::PageLock(absl::Span<std::byte>, bool) {}
PageLock::~PageLock() = default;

}  // namespace quantd
