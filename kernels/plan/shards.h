// Parts of a tensor that are quantized one by one and hold the bytes of the
// whole: where it may be cut; and, of an amax that is reduced over them, what a
// part adds, how that comes together, and the plan of a part that is given it.
//
// The maxima of a part are what RhtAmax finds in it: of a copy that is rotated,
// unless its amax is estimated, after the rotation; of all others max |x|.
#ifndef QUANTD_KERNELS_PLAN_SHARDS_H_
#define QUANTD_KERNELS_PLAN_SHARDS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "quantd/options.h"
#include "quantd/plan.h"

namespace quantd {

// Rows may be cut at multiples of `rows`, columns at multiples of `cols`, and
// both where the whole ends.
struct CutUnits {
  int64_t rows = 1;
  int64_t cols = 1;
};
// Blocks and rotations of the copies that are made must stay whole: those of
// the rowwise one lie along K, those of the columnwise one along M, square ones
// along both. The options are legal.
CutUnits CutUnitsOf(const QuantizeOptions& options);

// Whether the rows x cols of a request, which lie in the whole where
// options.shard says, are cut there. Rows of groups are not judged: every group
// is a tensor of its own, wherever it begins. Not part of a Plan, for which any
// position is legal: that of a group that was taken out of its tensor is, too.
absl::Status CheckShardCut(const QuantizeOptions& options, int64_t rows,
                           int64_t cols);

// Values that a part may add, or be given, in one message.
inline constexpr size_t kMostReduced = size_t{1} << 16;

// The kind of RhtAmax that is the amax of a copy; an estimate is made of the
// plain one.
TensorKind AmaxKindOf(const QuantizeOptions& options, bool columnwise);

// Asks for those of all copies.
RhtAmaxOptions AmaxOptionsOf(const QuantizeOptions& options);

// NaN where one of them is.
float LargerAmax(float a, float b);

// Raises `whole`, one amax or one for each line, to what the lines from `line`
// on add to it.
void Raise(absl::Span<float> whole, int64_t line,
           absl::Span<const float> values);

// Whether the plan is that of a Quantize whose amax may be reduced: it finds
// one, of no more than kMostReduced values, and for all rows together.
// FieldError, or TooLargeError of "reduce_amax".
absl::Status CheckReduces(const Plan& plan);

// What finds the maxima of a plan that reduces, over the same input. Its output
// is no larger than the plan's, and it has no scratch.
absl::StatusOr<Plan> MaximaPlan(const Plan& plan);
// From the output of that.
CopyAmax ReadMaxima(const Plan& plan, const Plan& maxima,
                    absl::Span<const std::byte> output);
// As many zeros as the maxima of the plan are: what no elements add.
CopyAmax NoMaxima(const Plan& plan);

// The plan with the reduced amax given, used as it is: with its outputs, and no
// more scratch. FieldError of "reduced_amax.rowwise" or "...columnwise" for too
// few or too many values, and for what is negative or not finite.
absl::StatusOr<Plan> SettledPlan(const Plan& plan, const CopyAmax& reduced);

}  // namespace quantd

#endif  // QUANTD_KERNELS_PLAN_SHARDS_H_
