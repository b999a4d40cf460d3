// Makes the plan of the way back: quantized weights become bf16 ones.
#ifndef QUANTD_CLIENT_CHECKPOINT_DECODE_PLANNER_H_
#define QUANTD_CLIENT_CHECKPOINT_DECODE_PLANNER_H_

#include "absl/status/statusor.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"

namespace quantd::checkpoint {

// INVALID_ARGUMENT for a model without quantized weights, or with some that
// fit no dialect; the model must outlive the plan.
absl::StatusOr<ConversionPlan> MakeDecodingPlan(const Model& model);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_DECODE_PLANNER_H_
