// Explains why a tensor differs from the original, by the first cause that
// applies.
#ifndef QUANTD_CLIENT_CHECKPOINT_REPORT_CAUSE_H_
#define QUANTD_CLIENT_CHECKPOINT_REPORT_CAUSE_H_

#include <string>

#include "client/checkpoint/check/compare.h"
#include "client/checkpoint/dialect.h"
#include "client/checkpoint/report/scale_codes.h"

namespace quantd::checkpoint {

// Further facts about a quantized tensor.
struct Surroundings {
  const WeightLayout* layout = nullptr;  // nullptr: not quantized
  const ScaleCodes* scales = nullptr;
  // largest magnitude of the weights that share its scale
  double group_amax = 0;
  std::string largest;  // the module with that magnitude
};

// The cause as a sentence without a full stop.
std::string CauseOf(const TensorDifference& d, const Surroundings& around);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPORT_CAUSE_H_
