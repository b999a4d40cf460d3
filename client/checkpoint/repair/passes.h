// Repairs until nothing more can be mended: some faults are seen only when
// others are gone, those of modules with wrong names, for example.
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

// `first`: what PlanRepair says for the same, and not nothing. What a second
// pass mends is written to "OUT.next", which then takes the place of `out`:
// twice the room is needed, and what fails leaves `out` whole with less of it
// mended.
absl::StatusOr<RepairOutcome> RepairInPasses(const Model& model,
                                             const Model* original,
                                             const RepairPlan& first,
                                             const std::string& out);

// What a repair wrote, whose faults are still there.
absl::Status RemoveOutput(const std::string& out);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPAIR_PASSES_H_
