// Distinguishes two causes of RESOURCE_EXHAUSTED: a device whose memory is used
// up, which is a fault of the device, and a pool that has reached its limit,
// which is not.
#ifndef QUANTD_KERNELS_DEVICE_OUT_OF_MEMORY_H_
#define QUANTD_KERNELS_DEVICE_OUT_OF_MEMORY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/cord.h"

namespace quantd {

inline constexpr char kOutOfMemoryUrl[] = "quantd/out_of_memory";

inline absl::Status OutOfMemoryError(const std::string& message) {
  absl::Status status = absl::ResourceExhaustedError(message);
  status.SetPayload(kOutOfMemoryUrl, absl::Cord());
  return status;
}

inline bool IsOutOfMemory(const absl::Status& status) {
  return absl::IsResourceExhausted(status) &&
         status.GetPayload(kOutOfMemoryUrl).has_value();
}

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_OUT_OF_MEMORY_H_
