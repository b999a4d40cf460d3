// Faults of quantized checkpoints that engines load without a word, or refuse
// with one that nobody understands.
#ifndef QUANTD_CLIENT_CHECKPOINT_LINT_LINT_H_
#define QUANTD_CLIENT_CHECKPOINT_LINT_LINT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/checkpoint/lint/finding.h"
#include "client/checkpoint/model.h"

namespace quantd::checkpoint {

// What mends it, or may.
enum class Remedy {
  kRepair,   // `quantctl repair`, sometimes by the original alone
  kConvert,  // the original, converted again
  kMeasure,  // the same with what is measured by running it
  kFetch,    // the files, got again from where they came
  kName,     // another model, named in its place
};

struct LintRule {
  std::string_view id;      // "fused-scales"
  std::string_view what;    // what is wrong with it, in a sentence
  std::string_view thread;  // a public one that reported it
  Remedy remedy;
};
absl::Span<const LintRule> LintRules();
const LintRule* FindLintRule(std::string_view id);

// What is wrong with a model, and how much of it was looked at.
struct Linted {
  std::vector<Finding> findings;  // none for a clean model
  size_t weights = 0;             // quantized ones; experts are one each
  // Held against the original, where there is one: weights, and tensors that
  // are not quantized.
  size_t compared = 0;
  size_t compared_others = 0;
  // Of those weights, rounded otherwise than to the nearest, as GPTQ does.
  size_t not_nearest = 0;
  double share = 1;  // of the rows of weights, RowSample's
  // What is odd and no fault everywhere, a sentence each.
  std::vector<std::string> notes;
  // What tells `quantctl convert` to make the like of it; "": nothing does.
  std::string made_as;
};

// `original`, where there is one, shows what the files alone do not: halves of
// bytes in the wrong order, scales in the order of another layout, and weights
// of another model. Headers, configuration and scales are read whole; of
// weights RowSample says which rows.
absl::StatusOr<Linted> Lint(const Model& model,
                            const Model* original = nullptr);

// The same for a model that could not be opened because of a fault in it, which
// is a finding; nullopt where none was there, or none that may be read.
std::optional<Linted> LintUnopened(const std::string& path,
                                   const absl::Status& status);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_LINT_LINT_H_
