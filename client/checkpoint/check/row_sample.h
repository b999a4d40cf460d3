// Selects the rows of weights to read: all rows of a small model, and evenly
// spread rows of each weight of a large model.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_ROW_SAMPLE_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_ROW_SAMPLE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "client/checkpoint/model.h"

namespace quantd::checkpoint {

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

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_ROW_SAMPLE_H_
