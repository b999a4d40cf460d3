// Finds faults of quantized checkpoints that engines load silently or refuse
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

// What the user can do about a fault.
enum class Remedy {
  kRepair,   // `quantctl repair`, in some cases only with --original
  kConvert,  // convert the original again
  kMeasure,  // measure input or cache scales, then convert again
  kFetch,    // download the files again
  kName,     // name another model on the command line
};

struct LintRule {
  std::string_view id;      // "fused-scales"
  std::string_view what;    // describes the fault in general
  std::string_view thread;  // a public issue about such a fault
  Remedy remedy;
};
absl::Span<const LintRule> LintRules();
const LintRule* FindLintRule(std::string_view id);

// The findings about a model, and how much of it was examined.
struct Linted {
  std::vector<Finding> findings;  // empty for a clean model
  size_t weights = 0;             // quantized weights; each expert counts
  // Quantized weights compared with the original, and other tensors compared.
  size_t compared = 0;
  size_t compared_others = 0;
  // Compared weights that were not rounded to nearest, such as GPTQ's.
  size_t not_nearest = 0;
  double share = 1;  // share of the rows that were read; see RowSample
  // Remarks about oddities that may be intended.
  std::vector<std::string> notes;
  // Options with which `quantctl convert` makes a similar model, or "".
  std::string made_as;
};

// Examines a model. `original`, if given, reveals more faults: halves of bytes
// in the wrong order, scales in another layout's order, and weights of another
// model. Reads headers, configuration and scales in full, and the rows of
// weights that RowSample selects.
absl::StatusOr<Linted> Lint(const Model& model,
                            const Model* original = nullptr);

// Turns the error of opening a model into a finding. nullopt if the model does
// not exist or may not be read.
std::optional<Linted> LintUnopened(const std::string& path,
                                   const absl::Status& status);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_LINT_LINT_H_
