// Two models, tensor by tensor, whatever formats and dialects they have.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_COMPARE_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_COMPARE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/checkpoint/dialect.h"
#include "client/checkpoint/model.h"

namespace quantd::checkpoint {

// What two tensors have in common. Of numbers that are finite in both.
struct TensorDifference {
  std::string name;    // of the module, or of a tensor that is copied
  std::string kind_a;  // "bf16", "nvfp4 by modelopt"
  std::string kind_b;
  int64_t rows = 0;
  int64_t cols = 0;
  std::optional<WeightFormat> format_a = {};  // none: it is not quantized
  std::optional<WeightFormat> format_b = {};
  // Sums of squares of a, and of a - b.
  double signal = 0;
  double noise = 0;
  // The ratio of the two: +infinity where they are equal, -infinity where a is
  // zero and b is not.
  double sqnr_db = 0;
  double cosine = 0;
  double max_error = 0;
  // Numbers that are NaN or infinite in one of them and other in the other.
  uint64_t not_finite = 0;
  // Of a: the largest magnitude, and the root of the mean square.
  double amax = 0;
  double rms = 0;
  double amax_b = 0;
  uint64_t lost = 0;  // numbers that are zero in b and not in a
  // Where both are stored in one way: bytes of codes, and scales.
  bool same_layout = false;
  uint64_t code_bytes = 0;
  uint64_t differing_code_bytes = 0;
  uint64_t scales = 0;
  uint64_t differing_scales = 0;

  bool equal() const { return noise == 0 && not_finite == 0; }
};

// What both have and nothing was said about.
struct NotCompared {
  std::string name;
  std::string why;
};

struct ModelDifference {
  std::vector<TensorDifference> tensors;  // sorted by name
  std::vector<std::string> only_a;
  std::vector<std::string> only_b;
  std::vector<NotCompared> not_compared;
};

// Tells every tensor when it was compared.
absl::StatusOr<ModelDifference> CompareModels(
    const Model& a, const Model& b,
    const std::function<void(const TensorDifference&)>& tell = {});

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_COMPARE_H_
