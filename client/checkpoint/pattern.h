// Patterns that select modules by name: names with * and ?, or regular
// expressions after "re:" as in compressed-tensors.
#ifndef QUANTD_CLIENT_CHECKPOINT_PATTERN_H_
#define QUANTD_CLIENT_CHECKPOINT_PATTERN_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace re2 {
class RE2;
}

namespace quantd::checkpoint {

// Copies share the compiled expression.
class Pattern {
 public:
  // INVALID_ARGUMENT for an invalid regular expression. Look-around and
  // back-references are not supported, so that matching takes linear time.
  static absl::StatusOr<Pattern> Parse(std::string_view text);

  const std::string& text() const { return text_; }
  // Whether the pattern matches the module's name, like
  // "model.layers.0.mlp.down_proj", or that name with ".weight". A pattern with
  // * and ? must match the whole name, a regular expression only its beginning.
  bool Matches(std::string_view module) const;

 private:
  std::string text_;
  bool whole_ = false;
  std::shared_ptr<const re2::RE2> expression_;
};

absl::StatusOr<std::vector<Pattern>> ParsePatterns(
    const std::vector<std::string>& texts);
// Returns the first pattern that matches, or nullptr.
const Pattern* FirstMatch(const std::vector<Pattern>& patterns,
                          std::string_view module);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_PATTERN_H_
