// Where the amax of a copy comes from: the one reading of given_amax and
// amax_estimation_scale together, which kernels/plan/FORMATS.md has in words.
#ifndef QUANTD_KERNELS_PLAN_AMAX_SOURCE_H_
#define QUANTD_KERNELS_PLAN_AMAX_SOURCE_H_

#include <vector>

#include "absl/types/span.h"
#include "quantd/options.h"

namespace quantd {

struct AmaxSource {
  enum class Kind {
    kNone,     // there is no such copy, or its format has no amax
    kGiven,    // `given`, times `factor`
    kPlain,    // max |x|, times `factor`
    kRotated,  // max |bf16(RHT)|
    kLines,    // one for each line, of the line's own values
  };

  Kind kind = Kind::kNone;
  // A list of the options: one value, one for each group or for each line.
  absl::Span<const float> given = {};
  float factor = 1;  // of an estimate

  bool computed() const { return kind != Kind::kNone && kind != Kind::kGiven; }
  // The values of `given`, times `factor`. May be Inf.
  std::vector<float> values() const;
};

// Of legal options.
AmaxSource SourceOfAmax(const QuantizeOptions& options, bool columnwise);

// Whether the amax of rotated copies is estimated.
inline bool Estimates(const QuantizeOptions& options) {
  return options.nvfp4.amax_estimation_scale.value_or(0) != 0;
}

// Whether there is an amax that an estimate would replace: that of a rotated
// copy which has none given.
bool MayEstimate(const QuantizeOptions& options);

}  // namespace quantd

#endif  // QUANTD_KERNELS_PLAN_AMAX_SOURCE_H_
