// Random requests: any method, profile, format, option, type and magnitude,
// mostly in legal combinations.
#ifndef QUANTD_TESTS_KERNELS_GPU_RANDOM_REQUEST_H_
#define QUANTD_TESTS_KERNELS_GPU_RANDOM_REQUEST_H_

#include <cstdint>
#include <string>

#include "quantd/plan.h"
#include "tests/testing/tensors.h"

namespace quantd {

struct RandomRequest {
  std::string name;
  absl::StatusOr<Plan> plan;  // an error if the options exclude each other
  Flavor flavor;              // flavor of its tensor
  uint64_t seed;              // seed of its inputs' bytes
  std::string profile;
  bool statistics = false;
};

// Draws request `number` of an endless series, which is the same on every
// machine. Most tensors have fewer than 10^5 elements. One in 96 is large, but
// has fewer than `largest`.
RandomRequest DrawRequest(int number, double largest);

}  // namespace quantd

#endif  // QUANTD_TESTS_KERNELS_GPU_RANDOM_REQUEST_H_
