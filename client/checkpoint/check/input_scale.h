// What scales of activations stand for.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_INPUT_SCALE_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_INPUT_SCALE_H_

#include "absl/status/statusor.h"
#include "client/checkpoint/stored.h"

namespace quantd::checkpoint {

// Inputs of modules are no larger, massive ones included, and no smaller.
inline constexpr double kMostInput = 1e6;
inline constexpr double kLeastInput = 1e-6;
// Most modules come after a norm, so that half of them are far below this.
inline constexpr double kMostMedianInput = 4096;

// The largest magnitude of the inputs whose scale this tensor is. `rule`: of
// the layout.
double InputAmax(const ModelTensor& tensor, Global rule, float scale);

// Whether half of the scales of a model would mean inputs larger than those of
// models are, and all their reciprocals mean inputs as models have them.
absl::StatusOr<bool> AreReciprocals(const Model& model,
                                    const StoredModel& stored);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_INPUT_SCALE_H_
