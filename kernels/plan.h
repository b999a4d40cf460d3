// A request, judged: all legality and all sizes, before any byte moves and
// without a device. A Plan that exists is legal on every backend.
//
// Shapes: a tensor of any rank is an M x K matrix; `flatten_axis` says where
// its dimensions split (M = product before it, K = product from it on).
// Errors: every Make function returns INVALID_ARGUMENT made by FieldError.
// Threads: a Plan is immutable and may be shared.
#ifndef QUANTD_KERNELS_PLAN_H_
#define QUANTD_KERNELS_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/format.h"
#include "kernels/sign_mask.h"

namespace quantd {

inline constexpr int kMaxRank = 8;
inline constexpr int64_t kMaxElements = int64_t{1} << 48;
// Tensors inside a payload start at multiples of this; gaps are zero bytes.
inline constexpr size_t kPayloadAlignment = 64;

// Where the rotation applies. Dimension 16 is the only legal one for now.
struct RhtOptions {
  bool rowwise = false;
  bool columnwise = false;
  int dimension = 16;
  SignMask sign_mask = kDefaultSignMask;
};

// The tensor that comes in (for Dequantize: that went in to Quantize).
struct TensorDesc {
  DType dtype = DType::kUnspecified;
  std::vector<int64_t> shape;
  // Negative counts from the end. Legal: 1 .. rank-1, and for rank 1 only the
  // default, which makes the vector one row.
  int flatten_axis = -1;
};

struct QuantizeOptions {
  Format format = Format::kUnspecified;
  Usage usage = Usage::kRowwise;
  RhtOptions rht;
  NonFinite non_finite = NonFinite::kIgnore;
  // A given amax replaces the computed one. Without RHT one alone serves both
  // directions; with RHT a direction without its own is computed.
  std::optional<float> rowwise_amax;
  std::optional<float> columnwise_amax;
};

struct DequantizeOptions {
  Format format = Format::kUnspecified;
  Usage usage = Usage::kRowwise;  // the one copy to decode: never kBoth
  DType output = DType::kUnspecified;
  bool inverse_rht = false;  // undo the rotation of that copy
  int rht_dimension = 16;
  SignMask sign_mask = kDefaultSignMask;
};

struct RhtAmaxOptions {
  bool rowwise = false;         // max |x|
  bool rowwise_rht = false;     // max |bf16(RHT of the rows)|
  bool columnwise = false;      // max |x|, again
  bool columnwise_rht = false;  // max |bf16(RHT of the columns)|
  int rht_dimension = 16;
  SignMask sign_mask = kDefaultSignMask;
  NonFinite non_finite = NonFinite::kIgnore;
};

// Rotates the rows of M x K in blocks along K.
struct ApplyRhtOptions {
  bool inverse = false;
  DType output = DType::kUnspecified;  // unspecified: the input's
  int rht_dimension = 16;
  SignMask sign_mask = kDefaultSignMask;
};

// One tensor inside a payload.
struct TensorSpec {
  TensorKind kind = TensorKind::kUnspecified;
  DType dtype = DType::kUnspecified;
  Layout layout = Layout::kLinear;
  std::vector<int64_t> shape;
  size_t offset = 0;  // bytes from the start of the payload
  size_t size = 0;    // bytes
};

class Plan {
 public:
  using Options = std::variant<QuantizeOptions, DequantizeOptions,
                               RhtAmaxOptions, ApplyRhtOptions>;

  // Normalised: defaults filled in, a shared amax copied to both fields.
  const Options& options() const { return options_; }
  const TensorDesc& tensor() const { return tensor_; }
  int64_t rows() const { return rows_; }  // M
  int64_t cols() const { return cols_; }  // K

  // What must be fed, packed as the backend wants it: one tensor for
  // Quantize, RhtAmax and ApplyRht; data, scale and amax for Dequantize. The
  // offsets are those of the job's own staging, not of a request's payload.
  const std::vector<TensorSpec>& inputs() const { return inputs_; }
  // What comes out, in the order of TensorKind; the offsets are those of the
  // reply's payload.
  const std::vector<TensorSpec>& outputs() const { return outputs_; }
  size_t input_bytes() const { return input_bytes_; }
  size_t output_bytes() const { return output_bytes_; }

  // The spec of that kind, or nullptr.
  const TensorSpec* input(TensorKind kind) const;
  const TensorSpec* output(TensorKind kind) const;

 private:
  friend class PlanBuilder;
  Plan() = default;

  Options options_;
  TensorDesc tensor_;
  int64_t rows_ = 0;
  int64_t cols_ = 0;
  std::vector<TensorSpec> inputs_;
  std::vector<TensorSpec> outputs_;
  size_t input_bytes_ = 0;
  size_t output_bytes_ = 0;
};

absl::StatusOr<Plan> MakeQuantizePlan(const TensorDesc& tensor,
                                      const QuantizeOptions& options);
// `tensor.dtype` is not used: the codes do not remember it.
absl::StatusOr<Plan> MakeDequantizePlan(const TensorDesc& tensor,
                                        const DequantizeOptions& options);
absl::StatusOr<Plan> MakeRhtAmaxPlan(const TensorDesc& tensor,
                                     const RhtAmaxOptions& options);
absl::StatusOr<Plan> MakeApplyRhtPlan(const TensorDesc& tensor,
                                      const ApplyRhtOptions& options);

}  // namespace quantd

#endif  // QUANTD_KERNELS_PLAN_H_
