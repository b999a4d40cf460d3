// Parts of a tensor that are quantized one by one and give the bytes of the
// whole: where a tensor may be cut, and, for an amax that is reduced over the
// parts, the maxima of a part, their reduction, and the plan of a part with the
// reduced amax.
//
// The maxima of a part are those that RhtAmax finds in it: after the rotation
// for a rotated copy whose amax is not estimated, else max |x|.
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

// Multiples at which rows and columns may be cut. Both may also be cut where
// the whole ends.
struct CutUnits {
  int64_t rows = 1;
  int64_t cols = 1;
};
// The units for legal options. Cuts must not split blocks and rotations of the
// copies that are made: those of the rowwise copy lie along K, those of the
// columnwise copy along M, square ones along both.
CutUnits CutUnitsOf(const QuantizeOptions& options);

// Checks that the rows x cols of a request are cut legally out of the whole, at
// the position of options.shard. Rows of groups are not checked: every group is
// a tensor of its own, wherever it begins. Not part of a Plan, for which any
// position is legal, such as that of a group taken out of its tensor.
absl::Status CheckShardCut(const QuantizeOptions& options, int64_t rows,
                           int64_t cols);

// The most values that a part may contribute, or be given, in one message.
inline constexpr size_t kMostReduced = size_t{1} << 16;

// The maximum of RhtAmax that is the amax of a copy, or that it is estimated
// from.
TensorKind AmaxKindOf(const QuantizeOptions& options, bool columnwise);

// The options of an RhtAmax that finds the maxima of all copies.
RhtAmaxOptions AmaxOptionsOf(const QuantizeOptions& options);

// The larger of two amaxes; NaN if one of them is NaN.
float LargerAmax(float a, float b);

// Raises `whole`, one amax or one for each line, to `values`, those of the
// lines from `line` on.
void Raise(absl::Span<float> whole, int64_t line,
           absl::Span<const float> values);

// Checks that the plan is a Quantize whose amax can be reduced: it computes at
// most kMostReduced amaxes, over all rows together. FieldError, or
// TooLargeError for "reduce_amax".
absl::Status CheckReduces(const Plan& plan);

// The plan that finds the maxima for a plan that reduces, over the same input.
// Its output is no larger than the plan's, and it needs no scratch.
absl::StatusOr<Plan> MaximaPlan(const Plan& plan);
// Reads the maxima from the output of that plan.
CopyAmax ReadMaxima(const Plan& plan, const Plan& maxima,
                    absl::Span<const std::byte> output);
// The maxima of an empty input: zeros, as many as the plan has maxima.
CopyAmax NoMaxima(const Plan& plan);

// The plan with the reduced amax given and used as it is; it has the same
// outputs, and no more scratch. FieldError for "reduced_amax.rowwise" or
// "...columnwise" if there are too few or too many values, or if one is
// negative or not finite.
absl::StatusOr<Plan> SettledPlan(const Plan& plan, const CopyAmax& reduced);

}  // namespace quantd

#endif  // QUANTD_KERNELS_PLAN_SHARDS_H_
