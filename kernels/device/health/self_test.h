// The known-answer test of a device: small jobs of every format family and
// every method, whose output bytes must have known hashes.
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

// The most bytes that the test takes from a device's pools. Its jobs run one
// after another.
inline constexpr size_t kSelfTestBytes = size_t{512} << 10;

struct KnownAnswer {
  std::string name;      // "nvfp4"
  uint64_t fingerprint;  // hash of the output's bytes
};
// The expected answers, in the order of the test.
absl::Span<const KnownAnswer> KnownAnswers();

// Runs the test's jobs and returns the device's answers. Errors are those of
// the device. Needs a free slot.
absl::StatusOr<std::vector<KnownAnswer>> RunKnownJobs(Backend& backend);

// Runs the test. DATA_LOSS with the name of the first job whose bytes are
// wrong, or the device's own error. A device that does not compute
// (BackendInfo::computes) passes unless it reports that it has faulted.
absl::Status SelfTest(Backend& backend);

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_HEALTH_SELF_TEST_H_
