// Judges whether weights are as close to their originals as their formats
// allow, and explains why a tensor differs. Counts how often each code of a
// block scale occurs.
#ifndef QUANTD_CLIENT_CHECKPOINT_REPORT_VERDICT_H_
#define QUANTD_CLIENT_CHECKPOINT_REPORT_VERDICT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/checkpoint/check/compare.h"
#include "client/checkpoint/dialect.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/stored.h"

namespace quantd::checkpoint {

// The meaning of the codes that are counted.
enum class ScaleKind : uint8_t {
  kE4M3,      // the code itself
  kE8M0,      // the code itself
  kExponent,  // the binary exponent of a floating-point scale plus 127
};
std::string_view Name(ScaleKind kind);

struct ScaleCodes {
  ScaleKind kind = ScaleKind::kE4M3;
  std::array<uint64_t, 256> counts = {};

  void Add(const ScaleCodes& other);
  uint64_t total() const;
  // The median code.
  int median() const;
  // The shares of codes that are zero and of subnormal codes. Subnormal codes
  // have lower precision; only E4M3 has them.
  double zero_share() const;
  double subnormal_share() const;
};

// The value of a code as text: "0.0156" or "2^-7".
std::string ValueText(ScaleKind kind, int code);

// Counts all scales of a weight except padding.
absl::StatusOr<ScaleCodes> CountScales(const Model& model,
                                       const StoredWeight& weight);

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
// The least SQNR expected of each row of a quantized weight, unless much larger
// rows share its scale.
double LeastRowDb(const TensorDifference& d);

// Whether the SQNR is below `least`. If it is not given: whether the SQNR of
// the tensor or of a row is below LeastDb() or LeastRowDb(), or a tensor
// changed that is not quantized. A tensor with NaN or infinite numbers in only
// one model is below any limit.
bool IsBelow(const TensorDifference& d, std::optional<double> least = {});

// Counts of the tensors, and the SQNRs of those that differ.
struct DifferenceSummary {
  size_t equal = 0;
  size_t differing = 0;
  size_t below = 0;  // see IsBelow
  // Means over the tensors with a finite SQNR; 0 without any.
  double mean_db = 0;
  double usual_db = 0;  // mean of UsualDb
  const TensorDifference* worst = nullptr;
};
DifferenceSummary SummaryOf(const ModelDifference& difference,
                            std::optional<double> least = {});

// The SQNR of all compared tensors, taken as one vector; +infinity if nothing
// differs.
double WholeDb(const ModelDifference& difference);

// A message about the tensors below the limit: "2 of the 14 tensors that differ
// are below ...".
std::string VerdictText(const ModelDifference& difference,
                        std::optional<double> least = {});

// Further facts about a quantized tensor.
struct Surroundings {
  const WeightLayout* layout = nullptr;  // nullptr: not quantized
  const ScaleCodes* scales = nullptr;
  // largest magnitude of the weights that share its scale
  double group_amax = 0;
  std::string largest;  // the module with that magnitude
};

// Explains why a tensor differs from the original, by the first cause that
// applies. A sentence without a full stop.
std::string CauseOf(const TensorDifference& d, const Surroundings& around);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPORT_VERDICT_H_
