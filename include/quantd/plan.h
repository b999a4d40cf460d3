// A checked request. Making a Plan checks the request and computes all sizes,
// without a device and before any byte is sent. Every Plan is legal on every
// device.
//
// Shapes: a tensor of any rank is an M x K matrix; M is the product of the
// dimensions before `flatten_axis`, K the product of the others.
// Errors: every Make function returns INVALID_ARGUMENT made by FieldError.
// Threads: a Plan is immutable and may be shared.
#ifndef QUANTD_PLAN_H_
#define QUANTD_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "quantd/format.h"
#include "quantd/options.h"

namespace quantd {

// Tensors inside a payload start at multiples of this; gaps are zero bytes.
inline constexpr size_t kPayloadAlignment = 64;

// Rows [row, row + rows) of the matrix. A tensor without groups is a single
// Group.
struct Group {
  int64_t row = 0;
  int64_t rows = 0;
};

// One tensor inside a payload.
struct TensorSpec {
  TensorKind kind = TensorKind::kUnspecified;
  DType dtype = DType::kUnspecified;
  Layout layout = Layout::kLinear;
  std::vector<int64_t> shape;
  size_t offset = 0;  // bytes from the start of the payload
  size_t size = 0;    // bytes
  // The starts of the groups' parts, in bytes from `offset`, and the end of the
  // last part. Empty if the plan has no groups, and for an input that is not a
  // quantized copy.
  std::vector<size_t> group_offsets = {};
};

class Plan {
 public:
  using Options = std::variant<QuantizeOptions, DequantizeOptions,
                               RhtAmaxOptions, ApplyRhtOptions>;

  // The options with defaults filled in. A plan made from them is equal to this
  // one.
  const Options& options() const { return options_; }
  const TensorDesc& tensor() const { return tensor_; }
  // The number of rows: M, or the sum of the groups' rows if the groups end
  // before M. For a columnwise copy that stays rotated, the padding is
  // included.
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }  // K
  const std::vector<Group>& groups() const { return groups_; }
  bool grouped() const { return grouped_; }

  // The input tensors: one for Quantize, RhtAmax and ApplyRht; data, scale and
  // amax for Dequantize. Their offsets are those in the job's staging buffer,
  // not those in a request's payload.
  const std::vector<TensorSpec>& inputs() const { return inputs_; }
  // The output tensors, in the order of TensorKind. Their offsets are those in
  // the reply's payload.
  const std::vector<TensorSpec>& outputs() const { return outputs_; }
  size_t input_bytes() const { return input_bytes_; }
  size_t output_bytes() const { return output_bytes_; }
  // The most device memory that a backend needs in addition to input and
  // output.
  size_t scratch_bytes() const { return scratch_bytes_; }

  // The input or output of that kind, or nullptr.
  const TensorSpec* input(TensorKind kind) const;
  const TensorSpec* output(TensorKind kind) const;

 private:
  friend class PlanBuilder;
  Plan() = default;

  Options options_;
  TensorDesc tensor_;
  int64_t rows_ = 0;
  int64_t cols_ = 0;
  std::vector<Group> groups_;
  bool grouped_ = false;
  std::vector<TensorSpec> inputs_;
  std::vector<TensorSpec> outputs_;
  size_t input_bytes_ = 0;
  size_t output_bytes_ = 0;
  size_t scratch_bytes_ = 0;
};

absl::StatusOr<Plan> MakeQuantizePlan(const TensorDesc& tensor,
                                      const QuantizeOptions& options);
// `tensor.dtype`, the type before quantization, is used only if a profile's
// library stores scales in that type.
absl::StatusOr<Plan> MakeDequantizePlan(const TensorDesc& tensor,
                                        const DequantizeOptions& options);
absl::StatusOr<Plan> MakeRhtAmaxPlan(const TensorDesc& tensor,
                                     const RhtAmaxOptions& options);
absl::StatusOr<Plan> MakeApplyRhtPlan(const TensorDesc& tensor,
                                      const ApplyRhtOptions& options);

}  // namespace quantd

#endif  // QUANTD_PLAN_H_
