// Delayed scaling of FP8 tensors: computes the next step's scale from a history
// of amaxes, by TransformerEngine's rule, but keeps the scale finite.
#ifndef QUANTD_DELAYED_SCALING_H_
#define QUANTD_DELAYED_SCALING_H_

#include <vector>

#include "absl/types/span.h"
#include "quantd/format.h"

namespace quantd {

struct ScaleUpdate {
  std::vector<float> history;  // rolled by one; entry [0] is zero
  float scale = 1;
};

// Computes the next scale. history[0] holds the amax of the step that ended.
// The scale is element_max * 2^-margin / amax, where amax is, by `rule`, the
// largest value of the history (NaN dropped) or history[0]. The scale is
// `previous` if that amax is 0 or not finite, and FLT_MAX if it would be Inf.
// The history becomes [0, h[2], .., h[L-1], h[0]]. L >= 1; |margin| <= 127.
ScaleUpdate UpdateScale(absl::Span<const float> history, HistoryRule rule,
                        int margin, float element_max, float previous);

struct GroupUpdates {
  std::vector<float> history;
  std::vector<float> scales;
};
// Computes the next scale of every group of a call. `history` holds the
// histories of all groups, of equal lengths, one after the other. Entry [0] of
// each is first set to the group's value in `amaxes`. `previous` has one scale
// for each group.
GroupUpdates UpdateScales(absl::Span<const float> history,
                          absl::Span<const float> amaxes, HistoryRule rule,
                          int margin, float element_max,
                          absl::Span<const float> previous);

}  // namespace quantd

#endif  // QUANTD_DELAYED_SCALING_H_
