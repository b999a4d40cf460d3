// What may be asked of a tensor, as plain data with its defaults. What is legal
// and what it comes to is for the Make functions of quantd/plan.h to say.
#ifndef QUANTD_OPTIONS_H_
#define QUANTD_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "quantd/format.h"
#include "quantd/sign_mask.h"

namespace quantd {

inline constexpr int kMaxRank = 8;
inline constexpr int64_t kMaxElements = int64_t{1} << 48;
inline constexpr size_t kMaxGroups = 1 << 14;
inline constexpr size_t kMaxHistory = 1 << 16;  // values of one group

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

// Whether a copy's amax is one for each of its lines.
constexpr bool HasAmaxOfLines(const FormatSpec& format, const CopyForm& form) {
  return form.row_scaled || format.scaling == Scaling::kChannel;
}

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

// Delayed scaling of FP8: quantd/delayed_scaling.h.
struct HistoryOptions {
  // [0] is this step's slot; at least one. Of groups: as many values for each,
  // one group after the other.
  std::vector<float> amax;
  HistoryRule rule = HistoryRule::kMax;
  int margin = 0;  // -127 .. 127
};

// What a part adds to the amax of the copies; of the whole after a reduction.
// One value or, where row_scaled or of FP8 channels, one for each of the part's
// rows and of its columns: then only parts that share these rows or columns
// reduce them. Empty for a copy that is not made or whose format has no amax.
struct CopyAmax {
  std::vector<float> rowwise;
  std::vector<float> columnwise;
};

struct Nvfp4Options {
  FourOverSix four_over_six = FourOverSix::kOff;
  bool fast_error = false;  // of four_over_six
  // The amax of a rotated copy that has none given is that of the unrotated
  // tensor times this. 0: no estimate. Not set: none either, unless the server
  // has one that it makes by default.
  std::optional<float> amax_estimation_scale = {};
};

struct Fp8Options {
  // FP8: a smaller amax counts as this one.
  float epsilon = 0;
  // FP8: scales are powers of two. Default: only for block scaling.
  std::optional<bool> power_of_two = {};
  // FP8 tensor scaling: the scales to use, one or one for each group (delayed
  // scaling); empty: computed from the amax (current scaling).
  std::vector<float> scale = {};
  std::optional<HistoryOptions> history = {};
};

struct MxOptions {
  // MX. Default: up, but for profiles that have another one.
  std::optional<ScaleRule> scale_rule = {};
};

struct QuantizeOptions {
  Format format = Format::kUnspecified;
  Usage usage = Usage::kRowwise;
  RhtOptions rht = {};
  NonFinite non_finite = NonFinite::kIgnore;
  // Replaces the computed amax: one value, one for each group, or one for each
  // line where row_scaled or of FP8 channels (groups after each other); empty:
  // computed. What is given for a direction that is not rotated is max |x| and
  // serves the other one, too, where that is made of max |x|: unrotated, or
  // estimated (but for row_scaled).
  std::vector<float> rowwise_amax = {};
  std::vector<float> columnwise_amax = {};
  CopyForm form = {};
  Rounding rounding = Rounding::kNearest;
  StochasticOptions stochastic = {};
  ShardPosition shard = {};
  Nvfp4Options nvfp4 = {};
  Fp8Options fp8 = {};
  MxOptions mx = {};
  // Rows of the groups, which follow each other; none: one group, not grouped.
  std::optional<std::vector<int64_t>> splits = {};
  // The groups may end before M: rows after the last one are not looked at, and
  // no output has anything of them.
  bool partial_splits = false;
  // What else to give beside the copies. `amax` on the wire: max |x|.
  bool want_amax = false;
  bool dbias = false;
  DType dbias_dtype = DType::kUnspecified;  // unspecified: the input's
  bool statistics = false;
  Profile profile = Profile::kTe;
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
  // Whose codes they are: they are decoded as that library does.
  Profile profile = Profile::kTe;
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

}  // namespace quantd

#endif  // QUANTD_OPTIONS_H_
