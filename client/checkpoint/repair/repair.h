// Repairs faults of a quantized model that need no new quantization, into a
// separate directory. Repairs it repeatedly until no further repair is found:
// some faults, such as those of modules with wrong names, are visible only
// after other repairs.
#ifndef QUANTD_CLIENT_CHECKPOINT_REPAIR_REPAIR_H_
#define QUANTD_CLIENT_CHECKPOINT_REPAIR_REPAIR_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/checkpoint/check/config_difference.h"
#include "client/checkpoint/dialect.h"
#include "client/checkpoint/lint/lint.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/repair/mended_weight.h"

namespace quantd::checkpoint {

// A repair of one fault.
struct Repaired {
  std::string rule;   // the lint rule
  std::string where;  // a module or a file
  std::string text;
};

struct RepairPlan {
  Dialect dialect = Dialect::kNone;
  std::vector<MendedWeight> weights;  // weights to change
  bool config = false;                // writes a new quantization_config
  bool sets_format = false;   // sets "format" in the metadata of all files
  bool drops_labels = false;  // removes kComfyMetadata
  // Members of quantization_config to drop, because no tensor fits them.
  std::set<std::string> dropped;
  bool drops_quantization = false;  // drops the quantization_config
  // Settings of config.json to set back to the original's values.
  std::vector<ConfigDifference> keys;
  std::string prefix;      // to remove from all names: "_orig_mod."
  std::string new_prefix;  // to add to all names except the head's
  std::vector<Repaired> repairs;
};

// Plans all repairs of one pass. `original`, if given, reveals bytes whose two
// 4-bit halves are swapped, and scales in another layout's order. `dialect` is
// the target if config.json names none.
absl::StatusOr<RepairPlan> PlanRepair(const Model& model, const Model* original,
                                      Dialect dialect);

// The repairs that worked: `left`, the findings about the repaired model, does
// not contain their faults.
std::vector<Repaired> Mended(const std::vector<Repaired>& repairs,
                             const std::vector<Finding>& left);

// The error from fitting the block scales of a weight.
struct FittedWeight {
  std::string module;
  FittingLoss loss;
};

// Writes the whole repaired model to `out`, or returns an error. Another call
// after an error starts anew.
absl::StatusOr<std::vector<FittedWeight>> Repair(const Model& model,
                                                 const RepairPlan& plan,
                                                 const std::string& out);

// Facts about the weights on which the repairs of files depend.
struct WeightFacts {
  // Whether all weights were compared with the original and equal it.
  bool are_the_originals = false;
  bool have_input_scales = false;
};

// Adds repairs of files, names and configurations to `plan`, whose dialect must
// be set. `original` may be nullptr unless facts.are_the_originals.
absl::Status PlanFiles(const Model& model, const Model* original,
                       const WeightFacts& facts, RepairPlan* plan);

struct RepairOutcome {
  std::vector<Repaired> repairs;
  std::vector<FittedWeight> fitted;
};

// `first` is the plan of PlanRepair, which must have repairs. Further passes
// write to "OUT.next", which then replaces `out`. This needs twice the disk
// space. If a pass fails, `out` holds the result of the previous pass.
absl::StatusOr<RepairOutcome> RepairInPasses(const Model& model,
                                             const Model* original,
                                             const RepairPlan& first,
                                             const std::string& out);

// Inserts `what` before the ending of a model's path: "out.next" for "out/",
// and "out.next.safetensors" for "out.safetensors".
std::string Beside(std::string path, std::string_view what);

// Removes the output of a repair.
absl::Status RemoveOutput(const std::string& out);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPAIR_REPAIR_H_
