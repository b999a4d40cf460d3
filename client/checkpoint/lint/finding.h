// The findings of lint.
#ifndef QUANTD_CLIENT_CHECKPOINT_LINT_FINDING_H_
#define QUANTD_CLIENT_CHECKPOINT_LINT_FINDING_H_

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace quantd::checkpoint {

// Values of Finding::kind that repair depends on.
inline constexpr std::string_view kAbsent = "absent";
inline constexpr std::string_view kNotANumber = "not a number";
inline constexpr std::string_view kTransforms = "transform_config";
inline constexpr std::string_view kSparsity = "sparsity_config";
inline constexpr std::string_view kUnquantized = "unquantized";
inline constexpr std::string_view kMisplaced = "place";
inline constexpr std::string_view kReciprocals = "reciprocals";
inline constexpr std::string_view kSwapped = "swapped";

// The rule that a model without quantized weights violates. Callers that accept
// plain models drop this finding.
inline constexpr std::string_view kNothing = "no-quantized-weight";

struct Finding {
  std::string_view rule;
  std::string where;  // a module or a file; the first of `count` of them
  std::string text;
  size_t count = 1;
  // Distinguishes findings of the same rule, such as two keys of a file.
  std::string kind = {};
};

// The finding without its rule: "model.layers.0: it is NaN, and 3 more".
inline std::string TextOf(const Finding& f) {
  return fmt::format(
      "{}: {}{}", f.where, f.text,
      f.count > 1 ? fmt::format(", and {} more", f.count - 1) : std::string());
}

// A list of findings in which a rule that many weights violate is one finding,
// so that a model with ten thousand faulty modules is reported in one line.
// Also holds the first error that kept a rule from its findings.
class Findings {
 public:
  // Adds a finding, or increments the count of one with the same rule and kind.
  // Repeated calls with the same rule, `where` and kind have no effect. A rule
  // has at most 12 findings; the last one also counts further kinds.
  void Add(std::string_view rule, const std::string& where,
           const std::string& text, std::string_view kind = "") {
    constexpr size_t kMostKinds = 12;
    if (!told_.emplace(rule, where, kind).second) return;
    size_t kinds = 0;
    Finding* last = nullptr;
    for (Finding& f : findings_) {
      if (f.rule != rule) continue;
      last = &f;
      if (f.kind == kind) break;
      ++kinds;
    }
    if (last != nullptr && (last->kind == kind || kinds >= kMostKinds)) {
      ++last->count;
      return;
    }
    findings_.push_back({rule, where, text, 1, std::string(kind)});
  }
  std::vector<Finding> Take() { return std::exchange(findings_, {}); }

  void Fail(const absl::Status& error) { status_.Update(error); }
  const absl::Status& status() const { return status_; }

 private:
  absl::Status status_;
  std::vector<Finding> findings_;
  std::set<std::tuple<std::string_view, std::string, std::string>> told_;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_LINT_FINDING_H_
