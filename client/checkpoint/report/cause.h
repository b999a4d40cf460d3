// Explains a tensor's distance from the original by the first reason that its
// numbers show.
#ifndef QUANTD_CLIENT_CHECKPOINT_REPORT_CAUSE_H_
#define QUANTD_CLIENT_CHECKPOINT_REPORT_CAUSE_H_

#include <string>

#include "client/checkpoint/check/compare.h"
#include "client/checkpoint/dialect.h"
#include "client/checkpoint/report/scale_codes.h"

namespace quantd::checkpoint {

// What else is known about a quantized tensor.
struct Surroundings {
  const WeightLayout* layout = nullptr;  // nullptr: not quantized
  const ScaleCodes* scales = nullptr;
  double group_amax = 0;  // of all weights that share its scale
  std::string largest;    // the module with the largest amax
};

// A sentence without a full stop.
std::string CauseOf(const TensorDifference& d, const Surroundings& around);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPORT_CAUSE_H_
