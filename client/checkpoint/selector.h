// Decides which weights are quantized, and in which format, by their roles and
// the user's options.
#ifndef QUANTD_CLIENT_CHECKPOINT_SELECTOR_H_
#define QUANTD_CLIENT_CHECKPOINT_SELECTOR_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "client/checkpoint/architecture.h"
#include "client/checkpoint/pattern.h"
#include "client/checkpoint/plan.h"

namespace quantd::checkpoint {

// The `kind` of experts that are left out because no engine is known to support
// quantized experts with their names.
inline constexpr char kOtherExperts[] =
    "experts that no engine is known to support quantized";

class Selector {
 public:
  // INVALID_ARGUMENT if the dialect does not have the format, or for an invalid
  // pattern or rule.
  static absl::StatusOr<Selector> Make(const Model& model,
                                       const Selection& selection);

  const Architecture& architecture() const { return architecture_; }
  // The layout of weights that no rule matches.
  const WeightLayout& layout() const { return *layout_; }
  // The profile for weights of a layout.
  Profile ProfileOf(const WeightLayout& layout) const {
    return profile_.value_or(layout.profile);
  }

  const std::vector<Pattern>& ignore() const { return ignore_; }
  // INVALID_ARGUMENT if --include names a weight that no engine supports
  // quantized. `tied`: the head is tied to the embeddings.
  absl::Status CheckInclude(const std::string& module, bool tied) const;

  bool has_patterns() const {
    return !(only_.empty() && ignore_.empty() && include_.empty() &&
             rules_.empty());
  }
  // INVALID_ARGUMENT for a pattern that matches none of the model's modules, or
  // an --include that matches no matrix. `modules` tells which are matrices.
  absl::Status CheckNamed(const std::map<std::string, bool>& modules) const;

  // Returns the weight's layout, or the reason why it is left out.
  std::variant<const WeightLayout*, LeftOut> Judge(const Weight& weight) const;

 private:
  // A --rule. The layout is nullptr for bf16, which means not quantized.
  struct Rule {
    Pattern pattern;
    const WeightLayout* layout = nullptr;
  };
  static absl::StatusOr<Rule> ParseRule(const std::string& text,
                                        Dialect dialect);

  const WeightLayout* layout_ = nullptr;
  std::optional<Profile> profile_;
  Architecture architecture_;
  std::string model_type_;
  std::vector<Pattern> only_;
  std::vector<Pattern> ignore_;
  std::vector<Pattern> include_;
  std::vector<Rule> rules_;
};

// The `kind` of weights that engines fuse with a matrix that is left out.
inline constexpr char kTorn[] =
    "weights that engines fuse with unquantized ones";

// Takes those weights out of `weights` that engines cannot run, and returns
// their tensors and why they are left out. Members of a fused layer must all be
// quantized or none, except that matrices in `left` that the user left out do
// not count. With FP8 blocks, members must begin at a multiple of 128 rows, and
// K must be a multiple of 128.
std::vector<std::pair<const ModelTensor*, LeftOut>> TakeUnfit(
    const Model& model, const Architecture& architecture,
    const std::vector<LeftOut>& left, std::vector<Weight>* weights);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_SELECTOR_H_
