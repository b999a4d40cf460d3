// Compares two models tensor by tensor, whatever their formats and dialects.
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

// Difference between two tensors, over the numbers that are finite in both.
struct TensorDifference {
  std::string name;    // of the module, or of a copied tensor
  std::string kind_a;  // "bf16", "nvfp4 by modelopt"
  std::string kind_b;
  int64_t rows = 0;
  int64_t cols = 0;
  std::optional<WeightFormat> format_a = {};  // nullopt: not quantized
  std::optional<WeightFormat> format_b = {};
  // Sums of squares of a, and of a - b.
  double signal = 0;
  double noise = 0;
  // The ratio of the two: +infinity if they are equal, -infinity if a is zero
  // and b is not.
  double sqnr_db = 0;
  double cosine = 0;
  double max_error = 0;
  // Count of numbers that are not finite in one tensor and differ in the other.
  uint64_t not_finite = 0;
  // Largest magnitude and root mean square of a.
  double amax = 0;
  double rms = 0;
  double amax_b = 0;
  uint64_t lost = 0;  // numbers that are zero in b but not in a
  // If both have the same layout: counts of code bytes and of scales.
  bool same_layout = false;
  uint64_t code_bytes = 0;
  uint64_t differing_code_bytes = 0;
  uint64_t scales = 0;
  uint64_t differing_scales = 0;

  bool equal() const { return noise == 0 && not_finite == 0; }
};

// A tensor that both models have but that was not compared.
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

// Fills in what the values of a tensor tell, from `signal` to `lost`. Both have
// the same number of values.
void CompareValues(const std::vector<float>& a, const std::vector<float>& b,
                   TensorDifference* difference);

// `tell` is called for every compared tensor.
absl::StatusOr<ModelDifference> CompareModels(
    const Model& a, const Model& b,
    const std::function<void(const TensorDifference&)>& tell = {});

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_COMPARE_H_
