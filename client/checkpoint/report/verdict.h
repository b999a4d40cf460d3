// How near to its original a weight is for the format that it has.
#ifndef QUANTD_CLIENT_CHECKPOINT_REPORT_VERDICT_H_
#define QUANTD_CLIENT_CHECKPOINT_REPORT_VERDICT_H_

#include <optional>
#include <string>
#include <string_view>

#include "client/checkpoint/check/compare.h"
#include "client/checkpoint/dialect.h"

namespace quantd::checkpoint {

// The SQNR that a format gives normal numbers, measured: weights of models are
// within a few dB of it.
double UsualDb(WeightFormat format);
// The usual dB between two weights that were compared, whose errors add up. Of
// two that are plain nobody knows what lies between them: the coarsest format
// may.
double UsualDb(const TensorDifference& d);

// The least that a weight may have: half as many dB. No conversion that is what
// it says comes so low, but for one whose weight lost its digits beside much
// larger ones that share its scale; weights of another model are at -3 dB.
double LeastDb(const TensorDifference& d);

// Whether it is below `least`, or else below LeastDb. Numbers that are NaN in
// one of the two are below everything.
bool IsBelow(const TensorDifference& d, std::optional<double> least = {});

// The ratio over all that was compared, as one vector: +infinity where nothing
// differs.
double WholeDb(const ModelDifference& difference);

// "2 of 14 weights are below what ..., the lowest is ...".
std::string VerdictText(const ModelDifference& difference,
                        std::optional<double> least = {});

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPORT_VERDICT_H_
