// A slow reference for every byte that the product computes. It shares no code
// with the product, not even a header or an enum. Values come from tables,
// codes from a search for the nearest value, and every fp32 operation is a
// double operation rounded once.
//
// A tensor is a row-major M x K matrix of raw bytes. The oracle does not check
// requests; callers must make only legal ones.
#ifndef QUANTD_TESTS_ORACLE_ORACLE_H_
#define QUANTD_TESTS_ORACLE_ORACLE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tests/oracle/codec.h"
#include "tests/oracle/layout.h"
#include "tests/oracle/profile.h"
#include "tests/oracle/random.h"
#include "tests/oracle/rht.h"
#include "tests/oracle/scale.h"
#include "tests/oracle/statistics.h"

namespace quantd::oracle {

// Options of Quantize, defined in kernels/plan/FORMATS.md. Only options of the
// format may be set.
struct QuantizeSpec {
  Element element = Element::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  bool rowwise = true;
  bool columnwise = false;
  bool rotate_rows = false;
  bool rotate_columns = false;
  Mask mask;
  Policy policy = Policy::kIgnore;
  // Given maxima; empty: computed. One value, one for each group, or, for
  // kFp8ChannelE4M3 and with row_scaled, one for each line, where columnwise
  // those of a group are adjacent.
  std::vector<float> row_amax;
  std::vector<float> column_amax;

  Format format = Format::kNvfp4;
  int dimension = 16;  // of all rotations
  // The rows of each group; empty: no groups. The groups may end before `rows`;
  // the remaining rows are ignored.
  std::vector<int64_t> splits = {};
  bool swizzled = false;
  bool compact = false;  // kNvfp4Square: one scale for each square

  bool row_scaled = false;          // NVFP4: an amax for each line
  std::optional<float> estimation;  // 0: no estimate
  FourOverSix four_over_six = FourOverSix::kOff;
  bool scale_256 = false;
  bool fast_error = false;
  bool scale_search = false;

  bool stochastic = false;
  uint64_t seed = 0;
  uint64_t seed_offset = 0;
  // The position of the payload in the global matrix.
  int64_t row_offset = 0;
  int64_t column_offset = 0;
  int64_t total_columns = 0;  // 0: column_offset + cols

  float epsilon = 0;                 // FP8: lower limit of the maxima
  std::optional<bool> power_of_two;  // FP8; unset: only for block scales
  std::vector<float> scale;          // FP8 tensor, delayed: one, or one a group
  std::optional<History> history;    // with `scale`
  ScaleRule rule = ScaleRule::kUp;   // MX

  std::optional<Element> dbias;  // type of dbias
  bool want_amax = false;
  bool statistics = false;
  Profile profile = Profile::kTe;
};

struct Copy {
  Bytes data;
  Bytes scale;
  std::vector<float> amax = {};    // empty for formats without an amax
  std::vector<float> global = {};  // for profiles that store one
  Statistics stats = {};           // if requested
  // The start of each group's part, and the end; empty without groups.
  std::vector<size_t> data_offsets = {};
  std::vector<size_t> scale_offsets = {};
};

struct Quantized {
  bool rejected = false;  // true: everything else is empty
  bool saw_nan = false;
  bool saw_inf = false;
  Copy rowwise;
  Copy columnwise;
  // Set if requested: sums over the rows (of each group), max |x| (of each
  // group), and the outputs of the history.
  Bytes dbias;
  std::vector<float> plain_amax;
  std::vector<float> history;
  std::vector<float> next_scale;
};
Quantized Quantize(const QuantizeSpec& spec, const Bytes& input);

struct DequantizeSpec {
  int64_t rows = 0;
  int64_t cols = 0;
  bool columnwise = false;
  bool inverse = false;
  Mask mask;
  Element output = Element::kF32;

  Format format = Format::kNvfp4;
  int dimension = 16;
  // The copy was rotated and stays rotated, so the result includes the padding
  // of its lines. Excludes `inverse`.
  bool rotated = false;
  std::vector<int64_t> splits = {};
  bool swizzled = false;
  bool compact = false;
  bool row_scaled = false;
  bool scale_256 = false;
  Profile profile = Profile::kTe;
  Element made_of = Element::kF32;  // the type before quantization
};
// Decodes a copy from its bytes and its amaxes or global numbers only.
Bytes Dequantize(const DequantizeSpec& spec, const Copy& copy);

struct AmaxSpec {
  Element element = Element::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  Mask mask;
  Policy policy = Policy::kIgnore;
  int dimension = 16;
  bool per_line = false;  // false: one amax for the tensor or each group
  std::vector<int64_t> splits = {};
};
struct Amaxes {
  bool rejected = false;
  std::vector<float> row;
  std::vector<float> row_rotated;  // only if `dimension` divides K
  std::vector<float> column;
  std::vector<float> column_rotated;
};
Amaxes RhtAmax(const AmaxSpec& spec, const Bytes& input);

// Rotates rows in blocks along K, which `dimension` divides.
Bytes ApplyRht(Element e, Element output, const Mask& mask, bool inverse,
               const Bytes& input, int dimension = 16);

}  // namespace quantd::oracle

#endif  // QUANTD_TESTS_ORACLE_ORACLE_H_
