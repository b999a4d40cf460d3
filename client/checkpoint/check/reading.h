// Determines whether a weight is the original's, and in which order its bytes
// are.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_READING_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_READING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/checkpoint/check/originals.h"
#include "client/checkpoint/check/rounding.h"
#include "client/checkpoint/check/row_sample.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/stored.h"

namespace quantd::checkpoint {

// Distance of numbers from the original's.
struct Difference {
  double signal = 0;  // squared
  double noise = 0;
  double product = 0;      // sum of products of both
  double power = 0;        // sum of squares of the model's numbers
  int64_t pieces = 0;      // pieces of rows that were examined
  int64_t wrong = 0;       // pieces that are noise
  int64_t wrong_rows = 0;  // rows with such a piece
  int64_t rows = 0;
  int64_t first_wrong_row = -1;
  // Set for a quantized weight.
  std::optional<Rounding::Verdict> rounding = {};

  // Noise relative to the root mean square: 0.1 is a tenth. NaN if there are
  // NaNs.
  double ratio() const;
  // Factor between the two.
  double gain() const { return signal == 0 ? 1 : product / signal; }
  // Whether it is the original times gain(), within the accuracy of its format.
  bool is_multiple() const;
  bool is_the_original() const;
};

// The order of a weight's bytes.
struct Reading {
  bool halves_swapped = false;  // E2M1 halves, relative to the dialect
  bool order_swapped = false;   // scale order, relative to the dialect
  Difference difference;
};

struct Readings {
  // The reading under which the weight is the original's; the dialect's own, if
  // that works.
  std::optional<Reading> right;
  Difference own;       // under the dialect's own reading
  size_t compared = 0;  // experts compared; 0: the original has no such weight
  std::string wrong;    // the expert that is least like the original's
  size_t wrongs = 0;    // experts that differ from the original's
};

// Tries the readings on the rows of the sample.
absl::StatusOr<Readings> FindReading(const Model& model,
                                     const StoredWeight& weight,
                                     const Originals& originals,
                                     const RowSample& sample);

// Compares a tensor that both models have, of any type.
absl::StatusOr<Difference> Compare(const Model& model,
                                   const ModelTensor& tensor,
                                   const Model& original,
                                   const ModelTensor& truth,
                                   const RowSample& sample);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_READING_H_
