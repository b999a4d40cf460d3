// Plans a conversion from the headers of a model alone.
#ifndef QUANTD_CLIENT_CHECKPOINT_PLANNER_H_
#define QUANTD_CLIENT_CHECKPOINT_PLANNER_H_

#include "absl/status/statusor.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"

namespace quantd::checkpoint {

// INVALID_ARGUMENT if the model cannot be converted with this selection. The
// model must outlive the plan.
absl::StatusOr<ConversionPlan> MakeConversionPlan(const Model& model,
                                                  const Selection& selection);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_PLANNER_H_
