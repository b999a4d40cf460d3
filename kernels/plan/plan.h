// A request, judged: all legality and all sizes, before any byte moves and
// without a device. A Plan that exists is legal on every backend.
//
// Shapes: a tensor of any rank is an M x K matrix; `flatten_axis` says where
// its dimensions split (M = product before it, K = product from it on).
// Errors: every Make function returns INVALID_ARGUMENT made by FieldError.
// Threads: a Plan is immutable and may be shared.
#ifndef QUANTD_KERNELS_PLAN_PLAN_H_
#define QUANTD_KERNELS_PLAN_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/plan/format.h"
#include "kernels/plan/sign_mask.h"

namespace quantd {

inline constexpr int kMaxRank = 8;
inline constexpr int64_t kMaxElements = int64_t{1} << 48;
inline constexpr size_t kMaxGroups = 1 << 14;
inline constexpr size_t kMaxHistory = 1 << 16;  // values of one group
inline constexpr int kRhtDimensions[] = {16, 32, 64, 128};
// Tensors inside a payload start at multiples of this; gaps are zero bytes.
inline constexpr size_t kPayloadAlignment = 64;

// Where the rotation applies. Dimensions: 16, 32, 64 and 128.
struct RhtOptions {
  bool rowwise = false;
  bool columnwise = false;
  int dimension = 16;
  std::optional<SignMask> sign_mask = {};  // default: DefaultSignMask
};

// The tensor that comes in (for Dequantize: that went in to Quantize).
struct TensorDesc {
  DType dtype = DType::kUnspecified;
  std::vector<int64_t> shape;
  // Negative counts from the end. Legal: 1 .. rank-1, and for rank 1 only the
  // default, which makes the vector one row.
  int flatten_axis = -1;
};

// How the copies of a tensor are laid out: what decoding must know of how
// they were made, beside the format.
struct CopyForm {
  Layout scale_layout = Layout::kLinear;
  // One scale for a 16 x 16 block, instead of one for each of its lines.
  bool compact_scales = false;
  bool row_scaled = false;  // one amax for each line
  // NVFP4 that was made with 4over6 and 256 as the largest block scale.
  bool scale_256 = false;
};

struct StochasticOptions {
  uint64_t seed = 0;
  // Another stream of the same seed.
  uint64_t seed_offset = 0;
};

// Where the tensor lies in a larger one. Random bits are a function of the
// global position, so that shards give the bytes of the whole.
struct ShardPosition {
  int64_t row_offset = 0;
  int64_t column_offset = 0;
  int64_t total_columns = 0;  // 0: column_offset + K
};

// Delayed scaling of FP8: kernels/plan/delayed_scaling.h.
struct HistoryOptions {
  // [0] is this step's slot; at least one. Of groups: as many values for each,
  // one group after the other.
  std::vector<float> amax;
  HistoryRule rule = HistoryRule::kMax;
  int margin = 0;  // -127 .. 127
};

struct QuantizeOptions {
  Format format = Format::kUnspecified;
  Usage usage = Usage::kRowwise;
  RhtOptions rht;
  NonFinite non_finite = NonFinite::kIgnore;
  // Replaces the computed amax: one value, one for each group, or one for each
  // line where row_scaled (groups after each other); empty: computed. What is
  // given for a direction that is not rotated is max |x| and serves the other
  // one, too, where that is made of max |x|: unrotated, or estimated (but for
  // row_scaled).
  std::vector<float> rowwise_amax = {};
  std::vector<float> columnwise_amax = {};
  CopyForm form = {};
  Rounding rounding = Rounding::kNearest;
  StochasticOptions stochastic = {};
  ShardPosition shard = {};
  FourOverSix four_over_six = FourOverSix::kOff;
  bool fast_error = false;  // of four_over_six
  // The amax of a rotated copy that has none given is that of the unrotated
  // tensor times this. 0: no estimate. Not set: none either, unless the server
  // has one that it makes by default.
  std::optional<float> amax_estimation_scale = {};
  // FP8: a smaller amax counts as this one.
  float epsilon = 0;
  // FP8: scales are powers of two. Default: only for block scaling.
  std::optional<bool> power_of_two = {};
  // FP8 tensor scaling: the scales to use, one or one for each group (delayed
  // scaling); empty: computed from the amax (current scaling).
  std::vector<float> scale = {};
  std::optional<HistoryOptions> history = {};
  ScaleRule scale_rule = ScaleRule::kUp;
  // Rows of the groups, which follow each other; none: one group, not grouped.
  std::optional<std::vector<int64_t>> splits = {};
  // The groups may end before M: rows after the last one are not looked at, and
  // no output has anything of them.
  bool partial_splits = false;
  // What else to give beside the copies.
  bool amax = false;
  bool dbias = false;
  DType dbias_dtype = DType::kUnspecified;  // unspecified: the input's
  bool statistics = false;
};

struct DequantizeOptions {
  Format format = Format::kUnspecified;
  Usage usage = Usage::kRowwise;  // the one copy to decode: never kBoth
  DType output = DType::kUnspecified;
  bool inverse_rht = false;  // undo the rotation of that copy
  // Not 0: leave the rotation of that dimension as it is. What comes out is the
  // rotated operand with its padding: the M of a columnwise copy (that of each
  // group) is rounded up to whole blocks and rotations.
  int rotated_dimension = 0;
  int rht_dimension = 16;
  std::optional<SignMask> sign_mask = {};  // default: DefaultSignMask
  CopyForm form = {};
  std::optional<std::vector<int64_t>> splits = {};
  bool partial_splits = false;
};

struct RhtAmaxOptions {
  bool rowwise = false;         // max |x|
  bool rowwise_rht = false;     // max |bf16(RHT of the rows)|
  bool columnwise = false;      // max |x|, again
  bool columnwise_rht = false;  // max |bf16(RHT of the columns)|
  int rht_dimension = 16;
  std::optional<SignMask> sign_mask = {};  // default: DefaultSignMask
  NonFinite non_finite = NonFinite::kIgnore;
  AmaxDomain domain = AmaxDomain::kTensor;
  std::optional<std::vector<int64_t>> splits = {};
  bool partial_splits = false;
};

// Rotates the rows of M x K in blocks along K.
struct ApplyRhtOptions {
  bool inverse = false;
  DType output = DType::kUnspecified;  // unspecified: the input's
  int rht_dimension = 16;
  std::optional<SignMask> sign_mask = {};  // default: DefaultSignMask
};

// Rows [row, row + rows) of the matrix. A tensor that is not grouped is one
// group.
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
  // Where each group's part starts, in bytes from `offset`, and the end of the
  // last one. Empty where the plan is not grouped, and of an input that is not
  // quantized.
  std::vector<size_t> group_offsets = {};
};

class Plan {
 public:
  using Options = std::variant<QuantizeOptions, DequantizeOptions,
                               RhtAmaxOptions, ApplyRhtOptions>;

  // Normalised: defaults filled in. A plan can be made of them again.
  const Options& options() const { return options_; }
  const TensorDesc& tensor() const { return tensor_; }
  // M; where the groups end before it, the rows that they have; of a columnwise
  // copy that stays rotated, with the padding.
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }  // K
  const std::vector<Group>& groups() const { return groups_; }
  bool grouped() const { return grouped_; }

  // What must be fed, packed as the backend wants it: one tensor for
  // Quantize, RhtAmax and ApplyRht; data, scale and amax for Dequantize. The
  // offsets are those of the job's own staging, not of a request's payload.
  const std::vector<TensorSpec>& inputs() const { return inputs_; }
  // What comes out, in the order of TensorKind; the offsets are those of the
  // reply's payload.
  const std::vector<TensorSpec>& outputs() const { return outputs_; }
  size_t input_bytes() const { return input_bytes_; }
  size_t output_bytes() const { return output_bytes_; }
  // Device memory a backend needs beside input and output, at most.
  size_t scratch_bytes() const { return scratch_bytes_; }

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
// `tensor.dtype` is not used: the codes do not remember it.
absl::StatusOr<Plan> MakeDequantizePlan(const TensorDesc& tensor,
                                        const DequantizeOptions& options);
absl::StatusOr<Plan> MakeRhtAmaxPlan(const TensorDesc& tensor,
                                     const RhtAmaxOptions& options);
absl::StatusOr<Plan> MakeApplyRhtPlan(const TensorDesc& tensor,
                                      const ApplyRhtOptions& options);

}  // namespace quantd

#endif  // QUANTD_KERNELS_PLAN_PLAN_H_
