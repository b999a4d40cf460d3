// Finds faults of quantized checkpoints that engines load silently, or refuse
// with an unclear error.
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

// What mends the fault, or may.
enum class Remedy {
  kRepair,   // `quantctl repair`, sometimes only with the original
  kConvert,  // the original, converted again
  kMeasure,  // the same, with scales measured by running it
  kFetch,    // the files, downloaded again
  kName,     // another model's name
};

struct LintRule {
  std::string_view id;      // "fused-scales"
  std::string_view what;    // what is wrong with it, in a sentence
  std::string_view thread;  // public issue that reported it
  Remedy remedy;
};
absl::Span<const LintRule> LintRules();
const LintRule* FindLintRule(std::string_view id);

// The faults of a model, and how much of it was examined.
struct Linted {
  std::vector<Finding> findings;  // empty for a clean model
  size_t weights = 0;             // quantized ones; each expert counts
  // Weights compared with the original, and tensors that are not quantized.
  size_t compared = 0;
  size_t compared_others = 0;
  // Compared weights not rounded to the nearest, as GPTQ does.
  size_t not_nearest = 0;
  double share = 1;  // share of the rows that were read, see RowSample
  // Oddities that need not be faults, one sentence each.
  std::vector<std::string> notes;
  // Options for `quantctl convert` to make a similar model; "" if none do.
  std::string made_as;
};

// Examines a model. An original, if given, reveals what the files alone do not:
// halves of bytes in the wrong order, scales in another layout's order, and
// weights of another model. Headers, configuration and scales are read in full;
// RowSample selects rows of weights.
absl::StatusOr<Linted> Lint(const Model& model,
                            const Model* original = nullptr);

// Turns the error of opening a model into a finding. nullopt if there is no
// model, or no permission to read it.
std::optional<Linted> LintUnopened(const std::string& path,
                                   const absl::Status& status);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_LINT_LINT_H_
