// What a repair does to files, names and configurations.
#ifndef QUANTD_CLIENT_CHECKPOINT_REPAIR_PLAN_FILES_H_
#define QUANTD_CLIENT_CHECKPOINT_REPAIR_PLAN_FILES_H_

#include "absl/status/status.h"
#include "client/checkpoint/repair/repair.h"

namespace quantd::checkpoint {

// What is known of the weights by then.
struct WeightFacts {
  // Held against it, all of them are its own.
  bool are_the_originals = false;
  bool have_input_scales = false;
};

// Adds to `plan`, whose dialect is settled, what is mended by writing files
// anew. `original`: nullptr, or the model of which the weights may be.
absl::Status PlanFiles(const Model& model, const Model* original,
                       const WeightFacts& facts, RepairPlan* plan);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPAIR_PLAN_FILES_H_
