// Selects the weights that are quantized and their formats, by their roles and
// the user's rules.
#ifndef QUANTD_CLIENT_CHECKPOINT_SELECTOR_H_
#define QUANTD_CLIENT_CHECKPOINT_SELECTOR_H_

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "client/checkpoint/architecture.h"
#include "client/checkpoint/pattern.h"
#include "client/checkpoint/plan.h"

namespace quantd::checkpoint {

// Reason for leaving out experts whose names no engine is known to take
// quantized.
inline constexpr char kOtherExperts[] = "experts that engines take plain";

class Selector {
 public:
  // INVALID_ARGUMENT for a pair of dialect and format that no library has, and
  // for an invalid pattern or rule.
  static absl::StatusOr<Selector> Make(const Model& model,
                                       const Selection& selection);

  const Architecture& architecture() const { return architecture_; }
  // The layout of weights without a rule.
  const WeightLayout& layout() const { return *layout_; }
  // The profile that makes the parts of a layout.
  Profile ProfileOf(const WeightLayout& layout) const {
    return profile_.value_or(layout.profile);
  }

  const std::vector<Pattern>& ignore() const { return ignore_; }
  // INVALID_ARGUMENT for a weight that --include names and no engine takes
  // quantized. `tied` means that the head is the matrix of the embeddings.
  absl::Status CheckInclude(const std::string& module, bool tied) const;

  // The weight's layout, or why it is left out.
  std::variant<const WeightLayout*, LeftOut> Judge(const Weight& weight) const;

 private:
  // nullptr: not quantized.
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

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_SELECTOR_H_
