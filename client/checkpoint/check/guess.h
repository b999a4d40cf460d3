// Guesses the intended layout of quantized weights whose names, types or shapes
// fit no dialect, or whose bytes are in another dialect's order.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_GUESS_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_GUESS_H_

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

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_GUESS_H_
