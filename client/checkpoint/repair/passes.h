// Repairs repeatedly until nothing more can be mended: some faults, such as
// those of modules with wrong names, are visible only after others are gone.
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

// `first` is the plan from PlanRepair, and must not be empty. Further passes
// write to "OUT.next", which then replaces `out`: this needs twice the space,
// and a failure leaves the result of the pass before in `out`.
absl::StatusOr<RepairOutcome> RepairInPasses(const Model& model,
                                             const Model* original,
                                             const RepairPlan& first,
                                             const std::string& out);

// Removes what a repair wrote if it did not mend the faults.
absl::Status RemoveOutput(const std::string& out);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPAIR_PASSES_H_
