// What scales of activations, and global scales of weights, stand for that are
// not those of their dialect.
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

// Whether half of the global scales, and half of their inverses, would mean
// weights as large as no model's, and be the largest weights of a model as they
// are: below 1, for larger ones may be 6 over a largest weight, and those that
// are 1 may be nothing.
absl::StatusOr<bool> AreAmaxes(const Model& model, const StoredModel& stored);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_INPUT_SCALE_H_
