// Recognizes input scales and global scales that were not stored in the form
// that the dialect requires.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_INPUT_SCALE_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_INPUT_SCALE_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "client/checkpoint/stored.h"

namespace quantd::checkpoint {

// Bounds of the largest input of a module, massive activations included.
inline constexpr double kMostInput = 1e6;
inline constexpr double kLeastInput = 1e-6;
// Bound of the median over all modules. Most modules follow a norm, so the
// median of their largest inputs is far below this.
inline constexpr double kMostMedianInput = 4096;

// The largest input that a stored input scale implies. `rule` is the layout's.
double InputAmax(const ModelTensor& tensor, Global rule, float scale);

// The scales that a calibration left in a model: their number, and the least
// and the largest magnitude that they stand for.
struct Calibrated {
  size_t count = 0;
  double least = 0;
  double most = 0;
};
struct Calibration {
  Calibrated inputs;
  Calibrated caches;  // keys and values in the KV cache
};
absl::StatusOr<Calibration> CalibrationOf(const Model& model,
                                          const StoredModel& stored);
Json JsonOf(const Calibrated& scales);
// Returns a line about the inputs and one about the caches, if there are any.
std::vector<std::string> LinesOf(const Calibration& calibration);

// Whether the model stores reciprocals of input scales: most scales would imply
// inputs that are too large, while their reciprocals imply plausible ones.
absl::StatusOr<bool> AreReciprocals(const Model& model,
                                    const StoredModel& stored);

// Whether at least half of the global scales are really amaxes: they are
// plausible as amaxes, but as multipliers and as divisors they would imply
// weights that are too large. Only numbers below 1 count, because 1 may be a
// placeholder and a larger number may be 6 / amax. A number that is not of 16
// bits does not count if it is a scale for an amax of 16 bits.
absl::StatusOr<bool> AreAmaxes(const Model& model, const StoredModel& stored);

// Whether at least half of the global scales imply a larger amax than weights
// have, as if all were reciprocals.
absl::StatusOr<bool> AreAllLarge(const Model& model, const StoredModel& stored);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_INPUT_SCALE_H_
