// Judges whether a weight is as close to its original as its format allows.
#ifndef QUANTD_CLIENT_CHECKPOINT_REPORT_VERDICT_H_
#define QUANTD_CLIENT_CHECKPOINT_REPORT_VERDICT_H_

#include <optional>
#include <string>
#include <string_view>

#include "client/checkpoint/check/compare.h"
#include "client/checkpoint/dialect.h"

namespace quantd::checkpoint {

// The SQNR that a format gives normal numbers, measured. Weights of models are
// within a few dB of it.
double UsualDb(WeightFormat format);
// The usual dB between two compared weights, whose errors add up. If both are
// plain they may have been in any format in between, so the coarsest is
// assumed.
double UsualDb(const TensorDifference& d);

// The least dB expected of a weight: half of the usual. Correct conversions
// stay above it, except for weights that lost digits because much larger ones
// share their scale. Weights of another model are at -3 dB.
double LeastDb(const TensorDifference& d);

// Whether it is below `least`, or by default below LeastDb. A tensor with
// numbers that are NaN in only one model is below any limit.
bool IsBelow(const TensorDifference& d, std::optional<double> least = {});

// The SQNR over everything compared, taken as one vector: +infinity if nothing
// differs.
double WholeDb(const ModelDifference& difference);

// "2 of 14 weights are below what ..., the lowest is ...".
std::string VerdictText(const ModelDifference& difference,
                        std::optional<double> least = {});

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPORT_VERDICT_H_
