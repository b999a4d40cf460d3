// Mends what can be mended of a quantized model without its original, into a
// separate directory.
#ifndef QUANTD_CLIENT_CHECKPOINT_REPAIR_REPAIR_H_
#define QUANTD_CLIENT_CHECKPOINT_REPAIR_REPAIR_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/checkpoint/check/config_difference.h"
#include "client/checkpoint/dialect.h"
#include "client/checkpoint/lint/finding.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/repair/mended_weight.h"

namespace quantd::checkpoint {

// A fault that is mended.
struct Repaired {
  std::string rule;   // the lint rule
  std::string where;  // a module or a file
  std::string text;
};

struct RepairPlan {
  Dialect dialect = Dialect::kNone;
  std::vector<MendedWeight> weights;  // weights that change
  bool config = false;                // the configuration changes
  bool sets_format = false;           // sets the format in all files' metadata
  bool drops_labels = false;          // removes ComfyUI's text for all layers
  // Members of quantization_config about things that the weights do not have.
  std::set<std::string> dropped;
  bool drops_quantization = false;  // all of it: none is quantized
  // Settings that are restored to the original's.
  std::vector<ConfigDifference> keys;
  std::string prefix;      // removed from all names: "_orig_mod."
  std::string new_prefix;  // that all but the head's get: "model."
  std::vector<Repaired> repairs;
};

// `original`, if given, reveals the order of half bytes and of scales.
// `dialect` is the target if config.json names none.
absl::StatusOr<RepairPlan> PlanRepair(const Model& model, const Model* original,
                                      Dialect dialect);

// The repairs whose faults a lint of the result does not find again.
std::vector<Repaired> Mended(const std::vector<Repaired>& repairs,
                             const std::vector<Finding>& left);

// Loss from fitting the scales of a weight.
struct FittedWeight {
  std::string module;
  FittingLoss loss;
};

// Writes a whole model to `out`, or returns an error; calling it again then
// starts anew.
absl::StatusOr<std::vector<FittedWeight>> Repair(const Model& model,
                                                 const RepairPlan& plan,
                                                 const std::string& out);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPAIR_REPAIR_H_
