// Compares two models tensor by tensor, in any formats and dialects.
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

// Difference between tensor a and tensor b, over the numbers that are finite in
// both.
struct TensorDifference {
  std::string name;    // name of the module, or of an unquantized tensor
  std::string kind_a;  // "bf16", "nvfp4 by modelopt"
  std::string kind_b;
  int64_t rows = 0;
  int64_t cols = 0;
  std::optional<WeightFormat> format_a = {};  // nullopt: not quantized
  std::optional<WeightFormat> format_b = {};
  // Sums of squares: of a (signal) and of a - b (noise).
  double signal = 0;
  double noise = 0;
  // signal / noise in dB: +infinity if the tensors are equal, -infinity if only
  // a is zero.
  double sqnr_db = 0;
  double cosine = 0;
  double max_error = 0;
  // Count of numbers that are NaN in a or b, or infinite in one of them.
  uint64_t not_finite = 0;
  // Largest magnitude of a (amax) and of b (amax_b), root mean square of a
  // (rms).
  double amax = 0;
  double rms = 0;
  double amax_b = 0;
  uint64_t lost = 0;  // numbers that are zero in b but not in a
  // The row with the lowest SQNR, without rows that are so small that a scale
  // for much larger rows rounds them to zero. -1: none differs.
  int64_t worst_row = -1;
  double worst_row_db = 0;
  // Count of numbers that differ although neither tensor is quantized, except
  // those rounded to the nearest number of the other type.
  uint64_t altered = 0;
  // A fault that rounding cannot cause, see Rounding::Verdict. Only rows that
  // RowSample selects are examined.
  std::string wrong = {};
  // Whether a and b have the same layout. Only then the counts below are set.
  bool same_layout = false;
  uint64_t code_bytes = 0;
  uint64_t differing_code_bytes = 0;
  uint64_t scales = 0;
  uint64_t differing_scales = 0;

  bool equal() const { return noise == 0 && not_finite == 0; }
};

// A tensor of both models that could not be compared, and the reason.
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

// Sets the members of `difference` from `signal` to `worst_row_db`. `a` and `b`
// have equal sizes, and `difference` has its sizes.
void CompareValues(const std::vector<float>& a, const std::vector<float>& b,
                   TensorDifference* difference);

// Compares all tensors of `a` and `b`. Calls `tell` for each tensor compared.
absl::StatusOr<ModelDifference> CompareModels(
    const Model& a, const Model& b,
    const std::function<void(const TensorDifference&)>& tell = {});

// The number of tensors that only the second model has, without a head, which
// may be tied in the first one.
size_t TensorsAdded(const ModelDifference& difference);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_COMPARE_H_
