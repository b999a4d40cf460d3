// Plans repairs of files, names and configurations.
#ifndef QUANTD_CLIENT_CHECKPOINT_REPAIR_PLAN_FILES_H_
#define QUANTD_CLIENT_CHECKPOINT_REPAIR_PLAN_FILES_H_

#include "absl/status/status.h"
#include "client/checkpoint/repair/repair.h"

namespace quantd::checkpoint {

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

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPAIR_PLAN_FILES_H_
