// Guesses the intended layout of quantized weights whose names, types or shapes
// fit no dialect, or whose bytes are in another dialect's order. Recognizes
// input scales and global scales in another form than the dialect requires.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_GUESS_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_GUESS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/checkpoint/dialect.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/stored.h"

namespace quantd::checkpoint {

enum class ScaleOrder : uint8_t {
  kLinear,    // row by row, without padding
  kPadded,    // row by row, padded to whole tiles of 128 x 4
  kSwizzled,  // in tiles of 128 x 4, as Tensor Cores need them
};

struct Guess {
  // The parts that exist, under any name.
  StoredWeight weight;
  ScaleOrder order = ScaleOrder::kLinear;
  // The global scale in the layout's form; nullopt if it has none.
  std::optional<float> global = {};
  // Deviations from the dialect, for messages.
  std::vector<std::string> oddities;
};

// Whether the weight is named as in compressed-tensors while config.json is for
// ModelOpt, or vice versa.
bool IsOfAnother(const StoredWeight& weight, Dialect configured);

// The dialect that config.json names, unless all weights are stacks of gpt-oss.
// If config.json names none: ComfyUI, if the model has its labels or, without a
// config.json, swizzled scales.
Dialect LikelyDialect(const Model& model, const StoredModel& stored);

// The lint rule that the order of the scales violates, or `otherwise` if the
// order is right.
std::string_view RuleOfOrder(const Guess& guess, std::string_view otherwise);

// The order of the scales of a weight that has the shapes of its layout. Scales
// of a swizzled layout count as swizzled unless their padding shows otherwise.
absl::StatusOr<ScaleOrder> OrderOfScales(const Model& model,
                                         const StoredWeight& weight);

// Guesses a weight of `dialect`; kNone allows any dialect. NOT_FOUND if a scale
// is missing. INVALID_ARGUMENT if no guess is possible; the message gives the
// reason.
absl::StatusOr<Guess> GuessWeight(const Model& model, const std::string& module,
                                  Dialect dialect);

// Bounds of the largest input of a module, massive activations included.
inline constexpr double kMostInput = 1e6;
inline constexpr double kLeastInput = 1e-6;
// Bound of the median over all modules. Most modules follow a norm, so the
// median of their largest inputs is far below this.
inline constexpr double kMostMedianInput = 4096;

// The largest input that a stored input scale implies. `rule` is the layout's.
double InputAmax(const ModelTensor& tensor, Global rule, float scale);

// The scales that a calibration left in a model: their number, and the least
// and the largest magnitude that they stand for.
struct Calibrated {
  size_t count = 0;
  double least = 0;
  double most = 0;
};
struct Calibration {
  Calibrated inputs;
  Calibrated caches;  // keys and values in the KV cache
};
absl::StatusOr<Calibration> CalibrationOf(const Model& model,
                                          const StoredModel& stored);
Json JsonOf(const Calibrated& scales);
// Returns a line about the inputs and one about the caches, if there are any.
std::vector<std::string> LinesOf(const Calibration& calibration);

// Whether the model stores reciprocals of input scales: most scales would imply
// inputs that are too large, while their reciprocals imply plausible ones.
absl::StatusOr<bool> AreReciprocals(const Model& model,
                                    const StoredModel& stored);

// Whether at least half of the global scales are really amaxes: they are
// plausible as amaxes, but as multipliers and as divisors they would imply
// weights that are too large. Only numbers below 1 count, because 1 may be a
// placeholder and a larger number may be 6 / amax. A number that is not of 16
// bits does not count if it is a scale for an amax of 16 bits.
absl::StatusOr<bool> AreAmaxes(const Model& model, const StoredModel& stored);

// Whether at least half of the global scales imply a larger amax than weights
// have, as if all were reciprocals.
absl::StatusOr<bool> AreAllLarge(const Model& model, const StoredModel& stored);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_GUESS_H_
