// The known-answer test of a device: small jobs of every family of formats and
// every method, whose outputs are compared with known ones to the byte.
#ifndef QUANTD_KERNELS_DEVICE_HEALTH_SELF_TEST_H_
#define QUANTD_KERNELS_DEVICE_HEALTH_SELF_TEST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device/backend.h"

namespace quantd {

// The most that its jobs, which follow each other, take of a device's pools.
inline constexpr size_t kSelfTestBytes = size_t{512} << 10;

struct KnownAnswer {
  std::string name;      // "nvfp4"
  uint64_t fingerprint;  // of the output's bytes
};
// What the test expects, in its order.
absl::Span<const KnownAnswer> KnownAnswers();

// What a device gives in their place. The errors are the device's. Needs a
// slot.
absl::StatusOr<std::vector<KnownAnswer>> RunKnownJobs(Backend& backend);

// OK; DATA_LOSS with the name of the first job whose bytes are not the known
// ones; or the device's own error. A device that does not compute is OK unless
// it says that it has faulted.
absl::Status SelfTest(Backend& backend);

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_HEALTH_SELF_TEST_H_
