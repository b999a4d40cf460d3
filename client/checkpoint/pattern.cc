#include "client/checkpoint/pattern.h"

#include <re2/re2.h>

#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

constexpr std::string_view kRegular = "re:";

std::string FromGlob(std::string_view glob) {
  std::string text;
  for (const char c : glob) {
    if (c == '*') {
      text += ".*";
    } else if (c == '?') {
      text += '.';
    } else {
      text += re2::RE2::QuoteMeta(std::string(1, c));
    }
  }
  return text;
}

}  // namespace

absl::StatusOr<Pattern> Pattern::Parse(std::string_view text) {
  Pattern pattern;
  pattern.text_ = text;
  pattern.whole_ = text.substr(0, kRegular.size()) != kRegular;
  const std::string source = pattern.whole_
                                 ? FromGlob(text)
                                 : std::string(text.substr(kRegular.size()));
  if (source.empty()) {
    return absl::InvalidArgumentError("an empty pattern matches nothing");
  }
  re2::RE2::Options options;
  options.set_log_errors(false);
  options.set_dot_nl(true);
  const auto compiled = std::make_shared<re2::RE2>(source, options);
  if (!compiled->ok()) {
    return absl::InvalidArgumentError(
        fmt::format("pattern \"{}\": {}", text, compiled->error()));
  }
  pattern.expression_ = compiled;
  return pattern;
}

bool Pattern::Matches(std::string_view module) const {
  const auto matches = [&](std::string_view name) {
    const re2::StringPiece piece(name.data(), name.size());
    return expression_->Match(
        piece, 0, name.size(),
        whole_ ? re2::RE2::ANCHOR_BOTH : re2::RE2::ANCHOR_START, nullptr, 0);
  };
  return matches(module) || matches(std::string(module) + ".weight");
}

absl::StatusOr<std::vector<Pattern>> ParsePatterns(
    const std::vector<std::string>& texts) {
  std::vector<Pattern> patterns;
  for (const std::string& text : texts) {
    auto pattern = Pattern::Parse(text);
    if (!pattern.ok()) return pattern.status();
    patterns.push_back(*std::move(pattern));
  }
  return patterns;
}

const Pattern* FirstMatch(const std::vector<Pattern>& patterns,
                          std::string_view module) {
  for (const Pattern& pattern : patterns) {
    if (pattern.Matches(module)) return &pattern;
  }
  return nullptr;
}

}  // namespace quantd::checkpoint
