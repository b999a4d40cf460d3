// Plans repairs of files, names and configurations.
#ifndef QUANTD_CLIENT_CHECKPOINT_REPAIR_PLAN_FILES_H_
#define QUANTD_CLIENT_CHECKPOINT_REPAIR_PLAN_FILES_H_

#include "absl/status/status.h"
#include "client/checkpoint/repair/repair.h"

namespace quantd::checkpoint {

// Facts about the weights, known before files are planned.
struct WeightFacts {
  // All weights were compared with the original and are the same.
  bool are_the_originals = false;
  bool have_input_scales = false;
};

// Adds repairs that rewrite files to `plan`, whose dialect is settled.
// `original` is nullptr, or the model that the weights may be from.
absl::Status PlanFiles(const Model& model, const Model* original,
                       const WeightFacts& facts, RepairPlan* plan);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_REPAIR_PLAN_FILES_H_
