// Which modules are meant: names with * and ?, or "re:" and a regular
// expression as compressed-tensors takes it; and lists of words.
#ifndef QUANTD_CLIENT_CHECKPOINT_PATTERN_H_
#define QUANTD_CLIENT_CHECKPOINT_PATTERN_H_

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace re2 {
class RE2;
}

namespace quantd::checkpoint {

// Copies share what was compiled.
class Pattern {
 public:
  // INVALID_ARGUMENT for what is no regular expression. Without look-around
  // and back-references, and so in linear time whatever the pattern.
  static absl::StatusOr<Pattern> Parse(std::string_view text);

  const std::string& text() const { return text_; }
  // Of a module "model.layers.0.mlp.down_proj" or of a tensor of it, with
  // ".weight". A name matches as a whole, a regular expression from its start.
  bool Matches(std::string_view module) const;

 private:
  std::string text_;
  bool whole_ = false;
  std::shared_ptr<const re2::RE2> expression_;
};

absl::StatusOr<std::vector<Pattern>> ParsePatterns(
    const std::vector<std::string>& texts);
// The first that matches, or nullptr.
const Pattern* FirstMatch(const std::vector<Pattern>& patterns,
                          std::string_view module);

template <typename List>
bool Has(const List& list, std::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

// The parts between the `at`, one of them where there is none.
inline std::vector<std::string_view> Split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_PATTERN_H_
