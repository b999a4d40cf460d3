// The known-answer test of a device: small jobs of every family of formats and
// every method, whose outputs are compared with known ones byte by byte.
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

// The most that its jobs, which run one after another, take from a device's
// pools.
inline constexpr size_t kSelfTestBytes = size_t{512} << 10;

struct KnownAnswer {
  std::string name;      // "nvfp4"
  uint64_t fingerprint;  // hash of the output's bytes
};
// The expected answers, in the order of the test.
absl::Span<const KnownAnswer> KnownAnswers();

// The answers that a device gives. Errors are the device's. Needs a slot.
absl::StatusOr<std::vector<KnownAnswer>> RunKnownJobs(Backend& backend);

// Runs the test. DATA_LOSS with the name of the first job whose bytes are
// wrong, or the device's own error. A device that does not compute passes
// unless it reports that it has faulted.
absl::Status SelfTest(Backend& backend);

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_HEALTH_SELF_TEST_H_
