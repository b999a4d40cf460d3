// Findings of lint.
#ifndef QUANTD_CLIENT_CHECKPOINT_LINT_FINDING_H_
#define QUANTD_CLIENT_CHECKPOINT_LINT_FINDING_H_

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace quantd::checkpoint {

// Kinds of findings that the description of repairs also needs.
inline constexpr std::string_view kAbsent = "absent";
inline constexpr std::string_view kNotANumber = "not a number";
inline constexpr std::string_view kTransforms = "transform_config";
inline constexpr std::string_view kSparsity = "sparsity_config";
inline constexpr std::string_view kUnquantized = "unquantized";
inline constexpr std::string_view kMisplaced = "place";
inline constexpr std::string_view kReciprocals = "reciprocals";
inline constexpr std::string_view kSwapped = "swapped";

// The rule broken by a model without quantized weights. Callers that also
// accept plain models drop its finding.
inline constexpr std::string_view kNothing = "no-quantized-weight";

struct Finding {
  std::string_view rule;
  std::string where;  // a module or a file; the first of `count`
  std::string text;
  size_t count = 1;
  // Tells apart several findings of a rule, such as keys of a file.
  std::string kind = {};
};

// Findings, combined by rule: a rule that many weights break is one finding, so
// that a model of ten thousand faulty modules is reported in one line.
class Findings {
 public:
  // Adds a finding. Call it once for a rule and a place. `kind` separates
  // faults of a rule that get a line each, such as two keys of a file. If there
  // are more kinds than a person reads, the last one counts the rest.
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

 private:
  std::vector<Finding> findings_;
  std::set<std::tuple<std::string_view, std::string, std::string>> told_;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_LINT_FINDING_H_
