// Quantization of parts of a tensor with the bytes of the whole: where a tensor
// may be cut; and, if the parts need a common amax, the maxima of each part,
// their reduction, and the plan of each part with the reduced amax.
//
// The maxima of a part are those of RhtAmax: the maximum after the rotation for
// a rotated copy whose amax is not estimated, otherwise max |x|.
#ifndef QUANTD_KERNELS_PLAN_SHARDS_H_
#define QUANTD_KERNELS_PLAN_SHARDS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "quantd/error_statistics.h"
#include "quantd/options.h"
#include "quantd/plan.h"

namespace quantd {

// Rows and columns may be cut at multiples of these numbers, and where the
// whole tensor ends.
struct CutUnits {
  int64_t rows = 1;
  int64_t cols = 1;
};
// The units for legal options. Cuts must not split the blocks and rotations of
// the copies that are made. Blocks of the rowwise copy lie along K, those of
// the columnwise copy along M, and square blocks along both.
CutUnits CutUnitsOf(const QuantizeOptions& options);

// Checks that the rows x cols of a request, at the position of options.shard,
// are legally cut out of the whole. Rows of groups are not checked, because
// every group is a tensor of its own. Making a Plan does not include this
// check: a group that is quantized alone may have any position.
absl::Status CheckShardCut(const QuantizeOptions& options, int64_t rows,
                           int64_t cols);

// The largest number of amaxes of a part in one message.
inline constexpr size_t kMostReduced = size_t{1} << 16;

// The kind of maximum of RhtAmax that is the amax of a copy, or from which the
// amax is estimated.
TensorKind AmaxKindOf(const QuantizeOptions& options, bool columnwise);

// The options of an RhtAmax that finds the maxima of all copies.
RhtAmaxOptions AmaxOptionsOf(const QuantizeOptions& options);

// The options that decode a copy made with `options`, and undo its rotation.
DequantizeOptions DecodeOptionsOf(const QuantizeOptions& options, Usage copy,
                                  DType output);

// Adds the statistics of another part, if it has any.
void AddStatistics(const std::optional<ErrorStatistics>& more,
                   std::optional<ErrorStatistics>* all);

// The larger of two amaxes; NaN if one of them is NaN.
float LargerAmax(float a, float b);

// Replaces amaxes of `whole` (one, or one for each line) by those of `values`
// that are larger. `values` begins at line `line`.
void Raise(absl::Span<float> whole, int64_t line,
           absl::Span<const float> values);

// Checks that the plan is a Quantize whose amax can be reduced: it computes at
// most kMostReduced amaxes, and has no groups, history or given amax.
// FieldError, or TooLargeError for "reduce_amax".
absl::Status CheckReduces(const Plan& plan);

// The plan that finds the maxima of the input of `plan`, whose amax is to be
// reduced. Its output is no larger than that of `plan`, and it needs no
// scratch.
absl::StatusOr<Plan> MaximaPlan(const Plan& plan);
// Reads the maxima from the output of the MaximaPlan `maxima`.
CopyAmax ReadMaxima(const Plan& plan, const Plan& maxima,
                    absl::Span<const std::byte> output);
// The maxima of an empty input, which are zeros.
CopyAmax NoMaxima(const Plan& plan);

// Turns the maxima over all parts into the amax for the options: applies
// estimation factors, and fills in values that the caller gave. Values may be
// Inf or NaN.
void SettleAmax(const Plan& plan, CopyAmax* amax);

// `plan` with the reduced amax as its given amax, to which no factor of an
// estimate is applied. It has the same outputs and no more scratch. FieldError
// for "reduced_amax.rowwise" or "...columnwise" if there are too few or too
// many values, or if one is negative or not finite.
absl::StatusOr<Plan> SettledPlan(const Plan& plan, const CopyAmax& reduced);

}  // namespace quantd

#endif  // QUANTD_KERNELS_PLAN_SHARDS_H_
