// Quantized weights whose names, types or shapes are those of no dialect, or
// whose bytes are in the order of another: what they were meant to be.
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
  kLinear,    // as dialects have them that do not swizzle
  kPadded,    // linear, to whole tiles of 128 x 4
  kSwizzled,  // tiles of 128 x 4, as Tensor Cores take them
};

struct Guess {
  // Its parts are those that there are, whatever their names.
  StoredWeight weight;
  ScaleOrder order = ScaleOrder::kLinear;
  // As the layout stores it; nullopt: it has none.
  std::optional<float> global = {};
  // What is other than the dialect has it, in words.
  std::vector<std::string> oddities;
};

// Whether its parts are named as the other one of two libraries does whose
// configurations say all that they have: compressed-tensors and ModelOpt.
bool IsOfAnother(const StoredWeight& weight, Dialect configured);

// The dialect that config.json names, but for tensors that no other has; where
// it names none, ComfyUI's if the tensors are as only ComfyUI has them.
Dialect LikelyDialect(const Model& model, const StoredModel& stored);

// The rule of lint that its scales break; `otherwise` where they lie as they
// should.
std::string_view RuleOfOrder(const Guess& guess, std::string_view otherwise);

// How the scales of a weight lie that has the shapes of a swizzled layout: as
// they should, unless padding shows that they lie row by row.
absl::StatusOr<ScaleOrder> OrderOfScales(const Model& model,
                                         const StoredWeight& weight);

// `dialect`: whose names it is to have; kNone: whoever has the format.
// NOT_FOUND where a scale is missing, INVALID_ARGUMENT says why else nothing
// can be told.
absl::StatusOr<Guess> GuessWeight(const Model& model, const std::string& module,
                                  Dialect dialect);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_GUESS_H_
