// Judges whether weights are as close to their originals as their formats
// allow.
#ifndef QUANTD_CLIENT_CHECKPOINT_REPORT_VERDICT_H_
#define QUANTD_CLIENT_CHECKPOINT_REPORT_VERDICT_H_

#include <optional>
#include <string>
#include <string_view>

#include "client/checkpoint/check/compare.h"
#include "client/checkpoint/dialect.h"

namespace quantd::checkpoint {

// The usual SQNR of a format, measured with normally distributed numbers.
// Weights of models are within a few dB of it.
double UsualDb(WeightFormat format);
// The usual SQNR between two compared weights, whose errors add up. If neither
// is quantized, one may have been decoded from any format, so the coarsest is
// assumed.
double UsualDb(const TensorDifference& d);

// The least SQNR expected of a weight: half of the usual. Correct conversions
// are above it, except for weights that lost precision because much larger ones
// share their scale. Weights of another model are at -3 dB.
double LeastDb(const TensorDifference& d);

// Whether the SQNR is below `least`, or below LeastDb() if not given. A tensor
// with NaN or infinite numbers in only one model is below any limit.
bool IsBelow(const TensorDifference& d, std::optional<double> least = {});

// The SQNR of all compared tensors, taken as one vector; +infinity if nothing
// differs.
double WholeDb(const ModelDifference& difference);

// A message about the tensors below the limit: "2 of the 14 tensors that differ
// are below ...".
std::string VerdictText(const ModelDifference& difference,
                        std::optional<double> least = {});

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPORT_VERDICT_H_
