// Repairs faults of a quantized model that need no new quantization, into a
// separate directory.
#ifndef QUANTD_CLIENT_CHECKPOINT_REPAIR_REPAIR_H_
#define QUANTD_CLIENT_CHECKPOINT_REPAIR_REPAIR_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/checkpoint/check/config_difference.h"
#include "client/checkpoint/dialect.h"
#include "client/checkpoint/lint/finding.h"
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

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPAIR_REPAIR_H_
