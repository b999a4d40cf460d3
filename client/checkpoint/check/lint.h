// Faults of quantized checkpoints that engines load without a word, or refuse
// with one that nobody understands.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_LINT_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_LINT_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/checkpoint/check/finding.h"
#include "client/checkpoint/model.h"

namespace quantd::checkpoint {

struct LintRule {
  std::string_view id;      // "fused-scales"
  std::string_view what;    // what is wrong with it, in a sentence
  std::string_view thread;  // a public one that reported it
};
absl::Span<const LintRule> LintRules();

// What is wrong with it: nothing for a clean model. `original`, where there is
// one, shows what the files alone do not: halves of bytes in the wrong order
// and scales in the order of another layout.
absl::StatusOr<std::vector<Finding>> Lint(const Model& model,
                                          const Model* original = nullptr);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_LINT_H_
