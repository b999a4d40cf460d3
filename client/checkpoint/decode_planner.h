// Plans the conversion of quantized weights back to bf16.
#ifndef QUANTD_CLIENT_CHECKPOINT_DECODE_PLANNER_H_
#define QUANTD_CLIENT_CHECKPOINT_DECODE_PLANNER_H_

#include "absl/status/statusor.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"

namespace quantd::checkpoint {

// INVALID_ARGUMENT if the model has no quantized weights, or has quantized
// weights that fit no dialect. The model must outlive the plan.
absl::StatusOr<ConversionPlan> MakeDecodingPlan(const Model& model);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_DECODE_PLANNER_H_
