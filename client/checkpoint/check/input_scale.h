// Recognizes scales of activations and global scales of weights that were
// stored in another form than the dialect's.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_INPUT_SCALE_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_INPUT_SCALE_H_

#include "absl/status/statusor.h"
#include "client/checkpoint/stored.h"

namespace quantd::checkpoint {

// Bounds of the inputs of modules, massive activations included.
inline constexpr double kMostInput = 1e6;
inline constexpr double kLeastInput = 1e-6;
// Most modules follow a norm, so half of the inputs are far below this.
inline constexpr double kMostMedianInput = 4096;

// The largest magnitude of the inputs with this scale. `rule` is the layout's.
double InputAmax(const ModelTensor& tensor, Global rule, float scale);

// Whether half of a model's scales would imply inputs larger than any model's,
// while all their reciprocals imply normal ones.
absl::StatusOr<bool> AreReciprocals(const Model& model,
                                    const StoredModel& stored);

// Whether at least half of the global scales are amaxes, stored in place of
// scales: they are plausible as amaxes, but as scales, and as inverses of
// scales, would imply weights larger than any model's. Only numbers below 1
// count: 1 may be a placeholder, and a larger number may be 6 / amax.
absl::StatusOr<bool> AreAmaxes(const Model& model, const StoredModel& stored);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_INPUT_SCALE_H_
