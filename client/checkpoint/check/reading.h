// Determines whether a weight equals the original's, and the order of its
// bytes.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_READING_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_READING_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/checkpoint/check/originals.h"
#include "client/checkpoint/check/rounding.h"
#include "client/checkpoint/check/row_sample.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/stored.h"

namespace quantd::checkpoint {

// Sums over the numbers x of the original and y of the model.
struct Difference {
  double signal = 0;  // sum of x * x
  double noise = 0;
  double product = 0;      // sum of x * y
  double power = 0;        // sum of y * y
  int64_t pieces = 0;      // pieces of rows that were examined
  int64_t wrong = 0;       // pieces that are mostly noise
  int64_t wrong_rows = 0;  // rows with a wrong piece
  int64_t rows = 0;
  int64_t first_wrong_row = -1;
  uint64_t altered = 0;  // see Altered; 0 for a quantized weight
  // Set for a quantized weight only.
  std::optional<Rounding::Verdict> rounding = {};

  // Error relative to the original: 0.1 is a tenth. NaN if a number is NaN.
  double ratio() const;
  // The factor by which the model's numbers are larger.
  double gain() const { return signal == 0 ? 1 : product / signal; }
  // The noise if the model's numbers were multiplied by `factor`.
  double noise_times(double factor) const {
    return signal - 2 * factor * product + factor * factor * power;
  }
  // Whether the model's numbers are the original's times gain(), within the
  // accuracy of the format.
  bool is_multiple() const;
  bool is_the_original() const;
};

// A possible order of a weight's bytes, and the difference under it.
struct Reading {
  bool halves_swapped = false;  // E2M1 halves, relative to the dialect
  bool order_swapped = false;   // scale order, relative to the dialect
  Difference difference;
};

struct Readings {
  // The reading under which the weight equals the original, if any. The
  // dialect's own reading is tried first.
  std::optional<Reading> right;
  Difference own;       // difference under the dialect's own reading
  size_t compared = 0;  // experts compared; 0: the original lacks the weight
  std::string wrong;    // the expert that differs most
  size_t wrongs = 0;    // experts that differ from the original
};

// The difference of one expert from the original under that reading, in the
// rows of the sample.
absl::StatusOr<Difference> DifferenceBy(const Model& model,
                                        const StoredWeight& w, int64_t expert,
                                        const Originals& originals,
                                        const OriginalWeight& original,
                                        const RowSample& sample,
                                        const Reading& reading);

// Tries all readings on the rows of the sample.
absl::StatusOr<Readings> FindReading(const Model& model,
                                     const StoredWeight& weight,
                                     const Originals& originals,
                                     const RowSample& sample);

// Compares two tensors that are not quantized, such as norms.
absl::StatusOr<Difference> Compare(const Model& model,
                                   const ModelTensor& tensor,
                                   const Model& original,
                                   const ModelTensor& truth,
                                   const RowSample& sample);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_READING_H_
