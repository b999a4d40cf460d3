// Guesses what quantized weights were meant to be if their names, types or
// shapes fit no dialect, or their bytes are in another dialect's order.
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
  kLinear,    // as in dialects without swizzling
  kPadded,    // linear, to whole tiles of 128 x 4
  kSwizzled,  // tiles of 128 x 4, as Tensor Cores take them
};

struct Guess {
  // Parts are those that exist, under any name.
  StoredWeight weight;
  ScaleOrder order = ScaleOrder::kLinear;
  // In the layout's form; nullopt: none.
  std::optional<float> global = {};
  // Deviations from the dialect, in words.
  std::vector<std::string> oddities;
};

// Whether its parts have the other library's names, if both are of those whose
// configurations describe everything: compressed-tensors and ModelOpt.
bool IsOfAnother(const StoredWeight& weight, Dialect configured);

// The dialect that config.json names, unless tensors occur that only another
// has. If it names none, ComfyUI's if the tensors are as only ComfyUI has them.
Dialect LikelyDialect(const Model& model, const StoredModel& stored);

// The lint rule that its order of scales breaks, or `otherwise` if the order is
// right.
std::string_view RuleOfOrder(const Guess& guess, std::string_view otherwise);

// The order of scales of a weight with the shapes of a swizzled layout:
// swizzled, unless padding shows that they are stored row by row.
absl::StatusOr<ScaleOrder> OrderOfScales(const Model& model,
                                         const StoredWeight& weight);

// `dialect` is the one whose names the weight should have; kNone: any that has
// the format. NOT_FOUND if a scale is missing; otherwise INVALID_ARGUMENT says
// why no guess is possible.
absl::StatusOr<Guess> GuessWeight(const Model& model, const std::string& module,
                                  Dialect dialect);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_GUESS_H_
