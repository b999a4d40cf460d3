// Options of the calls on a tensor: plain data with defaults. The Make
// functions of "quantd/plan.h" check them and compute the outputs.
#ifndef QUANTD_OPTIONS_H_
#define QUANTD_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "quantd/format.h"
#include "quantd/nvfp4_options.h"
#include "quantd/sign_mask.h"

namespace quantd {

inline constexpr int kMaxRank = 8;
inline constexpr int64_t kMaxElements = int64_t{1} << 48;
inline constexpr size_t kMaxGroups = 1 << 14;
inline constexpr size_t kMaxHistory = 1 << 16;  // values of one group

// The copies to rotate, and the dimension (16, 32, 64 or 128) and signs of the
// rotation.
struct RhtOptions {
  bool rowwise = false;
  bool columnwise = false;
  int dimension = 16;
  std::optional<SignMask> sign_mask = {};  // default: DefaultSignMask
};

// The tensor that a request sends; for Dequantize, the tensor that was
// quantized.
struct TensorDesc {
  DType dtype = DType::kUnspecified;
  std::vector<int64_t> shape;
  // The dimension that K begins with (see "quantd/plan.h"). Negative counts
  // from the end. Legal: 1 .. rank-1; for rank 1 only the default, which makes
  // the vector one row.
  int flatten_axis = -1;
};

// How the copies of a tensor are laid out. Decoding needs the same CopyForm as
// quantizing.
struct CopyForm {
  Layout scale_layout = Layout::kLinear;
  // Stores one scale for each 16 x 16 block, not one for each of its lines.
  bool compact_scales = false;
  bool row_scaled = false;  // one amax for each line
  // With 4over6 (NVFP4): the largest block scale is 256, not 448.
  bool scale_256 = false;
};

// Whether a copy has one amax for each of its lines.
constexpr bool HasAmaxOfLines(const FormatSpec& format, const CopyForm& form) {
  return form.row_scaled || format.scaling == Scaling::kChannel;
}

struct StochasticOptions {
  uint64_t seed = 0;
  // Selects another random stream of the same seed.
  uint64_t seed_offset = 0;
};

// The position of the tensor in a larger one. Random bits depend on the global
// position, so that shards give the bytes of the whole.
struct ShardPosition {
  int64_t row_offset = 0;
  int64_t column_offset = 0;
  int64_t total_columns = 0;  // 0: column_offset + K
};

// The amax history of delayed scaling (quantd/delayed_scaling.h).
struct HistoryOptions {
  // The history, at least one value; [0] is the entry of this step. With
  // groups: the histories of all groups, of equal lengths, one after the other.
  std::vector<float> amax;
  HistoryRule rule = HistoryRule::kMax;
  int margin = 0;  // -127 .. 127
};

// The amax of each copy, either of one part of a tensor or, after a reduction,
// of the whole. Each copy has one value. With row_scaled and for FP8 channels,
// `rowwise` has a value for each row of the part and `columnwise` for each
// column, which are reduced only among parts that share these rows or columns.
// Empty for a copy that is not made or whose format has no amax.
struct CopyAmax {
  std::vector<float> rowwise;
  std::vector<float> columnwise;
};

// Options of FP8 with fp32 scales. `scale` and `history` are for formats with
// one scale per tensor.
struct Fp8Options {
  // The least amax: a smaller one is replaced by this value.
  float epsilon = 0;
  // Rounds scales to powers of two. Not set: true for block scaling only.
  std::optional<bool> power_of_two = {};
  // The scales to use, for delayed scaling: one, or one for each group. Empty:
  // scales are computed from the amax (current scaling).
  std::vector<float> scale = {};
  std::optional<HistoryOptions> history = {};  // with `scale`
};

// Options of MXFP8 and MXFP4.
struct MxOptions {
  // Not set: kUp, unless the profile has another rule.
  std::optional<ScaleRule> scale_rule = {};
};

// Options of Quantize. Options that the format does not have, including those
// of another family, are refused by name: "history only with fp8_e4m3, ...".
struct QuantizeOptions {
  Format format = Format::kUnspecified;
  Usage usage = Usage::kRowwise;
  RhtOptions rht = {};
  NonFinite non_finite = NonFinite::kIgnore;
  // Amaxes that replace the computed ones: one value, one for each group, or,
  // with row_scaled and for FP8 channels, one for each line (group after
  // group). Empty: the amax is computed. An amax for an unrotated copy is max
  // |x|. It then also serves the other copy if that is unrotated or has an
  // estimated amax (but not with row_scaled).
  std::vector<float> rowwise_amax = {};
  std::vector<float> columnwise_amax = {};
  CopyForm form = {};
  Rounding rounding = Rounding::kNearest;
  StochasticOptions stochastic = {};
  ShardPosition shard = {};
  Nvfp4Options nvfp4 = {};
  Fp8Options fp8 = {};
  MxOptions mx = {};
  // The number of rows of each group; groups follow each other. Not set: no
  // groups.
  std::optional<std::vector<int64_t>> splits = {};
  // Allows the groups to end before M: rows after the last group are ignored
  // and appear in no output.
  bool partial_splits = false;
  // Outputs other than the copies. want_amax asks for max |x|, `amax` on the
  // wire.
  bool want_amax = false;
  bool dbias = false;
  DType dbias_dtype = DType::kUnspecified;  // unspecified: the input's
  bool statistics = false;
  // The library whose bytes the codes and scales have.
  Profile profile = Profile::kTe;
};

struct DequantizeOptions {
  Format format = Format::kUnspecified;
  Usage usage = Usage::kRowwise;  // the copy to decode; not kBoth
  DType output = DType::kUnspecified;
  bool inverse_rht = false;  // undo the rotation of that copy
  // Not 0: the dimension of the copy's rotation, which is kept. The result is
  // then the rotated operand with its padding: M of a columnwise copy (or of
  // each group) is rounded up to whole blocks and rotations. 0: the copy was
  // not rotated, or inverse_rht undoes the rotation.
  int rotated_dimension = 0;
  int rht_dimension = 16;
  std::optional<SignMask> sign_mask = {};  // default: DefaultSignMask
  CopyForm form = {};
  std::optional<std::vector<int64_t>> splits = {};
  bool partial_splits = false;
  // The profile that the copy was quantized with. Its library's arithmetic
  // decodes the codes.
  Profile profile = Profile::kTe;
};

struct RhtAmaxOptions {
  bool rowwise = false;         // max |x|
  bool rowwise_rht = false;     // max |bf16(RHT of the rows)|
  bool columnwise = false;      // max |x|, as a separate part
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
