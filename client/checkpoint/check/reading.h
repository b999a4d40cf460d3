// Finds the weights of an original model by the names that a model made from it
// may use. Determines whether a weight equals the original's, and the order of
// its bytes.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_READING_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_READING_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/checkpoint/check/rounding.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"
#include "client/checkpoint/stored.h"
#include "client/checkpoint/weight_values.h"

namespace quantd::checkpoint {

// A weight of the original.
struct OriginalWeight {
  const StoredWeight* stored = nullptr;  // set if the original is quantized
  int64_t expert = 0;
  // The weight as a conversion reads it; empty for a quantized stack.
  Weight plain;
  int64_t rows = 0;
  int64_t cols = 0;
};

class Originals {
 public:
  static absl::StatusOr<Originals> Of(const Model& model);

  const Model& model() const { return *model_; }
  const StoredModel& stored() const { return *stored_; }
  // Returns nullptr if there is no weight of that name.
  const OriginalWeight* Find(const std::string& name) const;
  // Returns nullptr if there is no weight of that name and shape. `expert` is
  // the expert's index in a stack.
  const OriginalWeight* Find(const StoredWeight& weight, int64_t expert) const;

  // An unquantized stack of experts, and the names of its experts when stored
  // separately: `whole` as in the tensor, `split` with gate and up apart.
  struct Stack {
    const ModelTensor* tensor = nullptr;
    std::vector<std::string> whole;
    std::vector<std::string> split;
  };
  const std::vector<Stack>& stacks() const { return stacks_; }

 private:
  const Model* model_ = nullptr;
  std::shared_ptr<const StoredModel> stored_;
  std::map<std::string, OriginalWeight> weights_;
  std::vector<Stack> stacks_;
};

// Decodes a weight of an original, or any tensor of numbers.
class OriginalValues {
 public:
  OriginalValues(const Model& model, const OriginalWeight& weight);
  // Reads a tensor of numbers that is not quantized.
  OriginalValues(const Model& model, const ModelTensor& tensor);

  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }

  // Reads rows [row, row + count): count * K numbers.
  absl::Status Read(int64_t row, int64_t count, std::vector<float>* out);

 private:
  const Model& model_;
  const OriginalWeight* weight_ = nullptr;
  // nullptr: rows are read with `weight_`
  std::unique_ptr<WeightValues> values_;
  int64_t rows_ = 0;
  int64_t cols_ = 0;
};

class RowSample {
 public:
  // Models with at most this many bytes are read in full, which takes seconds.
  static constexpr double kMostNumbers = 1 << 30;
  // The fewest rows that are read of each weight.
  static constexpr int64_t kLeastRows = 16;

  explicit RowSample(const Model& model, double most = kMostNumbers) {
    double bytes = 0;
    for (const ModelTensor& t : model.tensors()) {
      bytes += static_cast<double>(t.stored.size);
    }
    share_ = bytes > most ? most / bytes : 1;
  }

  double share() const { return share_; }

  struct Run {
    int64_t begin = 0;
    int64_t count = 0;
  };
  // The rows of a weight to read. Runs of a sample have `together` rows. If all
  // rows are read, a run has as many rows as should be read at once.
  std::vector<Run> Of(int64_t rows, int64_t cols, int64_t together = 1) const {
    std::vector<Run> runs;
    const int64_t most =
        std::max(together, (1 << 20) / std::max<int64_t>(1, cols));
    const auto wanted = std::max(
        kLeastRows,
        static_cast<int64_t>(std::ceil(share_ * static_cast<double>(rows))));
    if (wanted >= rows) {
      for (int64_t row = 0; row < rows; row += most) {
        runs.push_back({row, std::min(most, rows - row)});
      }
      return runs;
    }
    const int64_t count = std::max<int64_t>(2, wanted / together);
    const int64_t last = std::max<int64_t>(0, rows - together);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t begin = last * i / (count - 1);
      runs.push_back({begin, std::min(together, rows - begin)});
    }
    return runs;
  }

 private:
  double share_ = 1;
};

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
