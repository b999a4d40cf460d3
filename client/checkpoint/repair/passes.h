// Repairs a model repeatedly until no further repair is found: some faults,
// such as those of modules with wrong names, are visible only after other
// repairs.
#ifndef QUANTD_CLIENT_CHECKPOINT_REPAIR_PASSES_H_
#define QUANTD_CLIENT_CHECKPOINT_REPAIR_PASSES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/repair/repair.h"

namespace quantd::checkpoint {

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

#endif  // QUANTD_CLIENT_CHECKPOINT_REPAIR_PASSES_H_
