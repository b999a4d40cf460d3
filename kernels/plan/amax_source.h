// The source of a copy's amax. Only this code reads given_amax and
// amax_estimation_scale together. kernels/plan/FORMATS.md explains the rules.
#ifndef QUANTD_KERNELS_PLAN_AMAX_SOURCE_H_
#define QUANTD_KERNELS_PLAN_AMAX_SOURCE_H_

#include <vector>

#include "absl/types/span.h"
#include "quantd/options.h"

namespace quantd {

struct AmaxSource {
  enum class Kind {
    kNone,     // the copy is not made, or its format has no amax
    kGiven,    // `given`, times `factor`
    kPlain,    // max |x|, times `factor`
    kRotated,  // max |bf16(RHT)|
    kLines,    // one amax for each line, computed from that line
  };

  Kind kind = Kind::kNone;
  // The values from the options: one value, or one for each group or line.
  absl::Span<const float> given = {};
  float factor = 1;  // the factor of an estimate

  bool computed() const { return kind != Kind::kNone && kind != Kind::kGiven; }
  // The values of `given`, times `factor`. May be Inf.
  std::vector<float> values() const;
};

// The source for one direction. The options must be legal.
AmaxSource SourceOfAmax(const QuantizeOptions& options, bool columnwise);

// Whether the amax of rotated copies is estimated.
inline bool Estimates(const QuantizeOptions& options) {
  return options.nvfp4.amax_estimation_scale.value_or(0) != 0;
}

// Whether an estimate would replace some amax: whether a rotated copy exists
// whose amax is not given.
bool MayEstimate(const QuantizeOptions& options);

}  // namespace quantd

#endif  // QUANTD_KERNELS_PLAN_AMAX_SOURCE_H_
