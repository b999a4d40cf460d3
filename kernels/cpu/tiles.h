// The CPU's inner loops as a table of functions, one table for each
// instruction set, all made from the same sources.
//
// Every function works on a range of rows and may run beside others on other
// ranges; ranges start and end at multiples of kTileRows, but for the last row.
// Matrices are row-major without padding. Nothing allocates or fails.
#ifndef QUANTD_KERNELS_CPU_TILES_H_
#define QUANTD_KERNELS_CPU_TILES_H_

#include <cstddef>
#include <cstdint>

#include "kernels/arith/encode.h"
#include "kernels/device/group_task.h"
#include "kernels/plan/error_statistics.h"
#include "kernels/plan/format.h"

namespace quantd::cpu {

inline constexpr int64_t kTileRows = kChunkRows;

using quantd::Matrix;

// Which function makes the codes and scales of a copy.
enum class EncodeKernel {
  kNone,        // The copy is not wanted.
  kNvfp4,       // NVFP4 whose Recipe is plain_nvfp4; makes both copies at once
  kFp8Rows,     // FP8 codes that are not rotated, without statistics
  kFp8Columns,  // likewise; makes both copies where their codes are the same
  kFp8Squares,  // likewise, a scale for 128 x 128 codes; makes both at once
  kLines,       // every format and option
};
struct EncodeChoice {
  EncodeKernel rowwise = EncodeKernel::kNone;
  EncodeKernel columnwise = EncodeKernel::kNone;

  bool operator==(const EncodeChoice&) const = default;
};

// Maxima as fp32 bits with NaN dropped, and what else was seen.
struct Maxima {
  uint32_t plain = 0;
  uint32_t row_rht = 0;
  uint32_t col_rht = 0;
  bool nan = false;  // in the input
  bool inf = false;
  bool row_rht_nan = false;  // in the rotated values
  bool col_rht_nan = false;
};

struct AmaxArgs {
  Matrix x;
  const float* row_signs;  // 16 values s[i] / 4, or nullptr: not wanted
  const float* col_signs;
};

// One copy to write. `signs` are as above; without them it is not rotated.
struct Nvfp4Copy {
  std::byte* data = nullptr;  // nullptr: this copy is not wanted
  std::byte* scale = nullptr;
  int64_t data_stride = 0;  // bytes from line to line
  int64_t scale_stride = 0;
  float s_dec = 0;  // kernels/arith/nvfp4.h Nvfp4Encode
  float s_inv6 = 0;
  float global = 1;  // of a profile: GlobalScaleOf
  const float* signs = nullptr;
};

struct QuantizeArgs {
  Matrix x;
  Nvfp4Copy row;
  Nvfp4Copy col;
  bool propagate;
  // Where blocks work with the copy's global scale: rows alone, not rotated.
  const EncodeParams* params = nullptr;
};

struct DequantizeArgs {
  const std::byte* data;
  const std::byte* scale;
  int64_t data_stride;
  int64_t scale_stride;
  float amax;  // kernels/arith/nvfp4.h Nvfp4Decode
  float k;
  const float* signs;  // nullptr: no inverse rotation
  std::byte* out;      // rows x cols
  DType dtype;
  int64_t rows;
  int64_t cols;
};

struct RotateArgs {
  Matrix x;
  std::byte* out;
  DType dtype;
  const float* signs;
  bool inverse;
  int dimension;
};

// Maxima under a rotation of any dimension. Where an array is given, which must
// hold zeros, those of each line go there as fp32 bits: with NaN above Inf
// where `propagate`, else with NaN dropped.
struct AmaxLinesArgs {
  Matrix x;
  int rotation;
  const float* row_signs;  // nullptr: not wanted
  const float* col_signs;
  bool propagate;
  uint32_t* row_lines;  // nullptr: not wanted
  uint32_t* row_rht_lines;
  uint32_t* col_lines;
  uint32_t* col_rht_lines;
};

struct TileKernels {
  // Adds what the rows hold to `*maxima`.
  void (*amax)(const AmaxArgs&, int64_t first, int64_t last, Maxima* maxima);
  // Codes and scales of the rows; sets nan and inf of `*seen`.
  void (*quantize)(const QuantizeArgs&, int64_t first, int64_t last,
                   Maxima* seen);
  void (*dequantize_row)(const DequantizeArgs&, int64_t first, int64_t last);
  void (*dequantize_col)(const DequantizeArgs&, int64_t first, int64_t last);
  // Rotates by 16; sets nan and inf of `*seen`.
  void (*rotate)(const RotateArgs&, int64_t first, int64_t last, Maxima* seen);

  // These do the same for any format and dimension: kernels/cpu/isa/lines.h. No
  // EncodeChoice has kNvfp4 here.
  void (*quantize_lines)(const EncodeParams&, EncodeChoice, const GroupTask&,
                         int64_t first, int64_t last, Maxima* seen,
                         ErrorSums* row_errors, ErrorSums* col_errors);
  void (*dequantize_lines)(const DequantizeParams&, const GroupTask&,
                           int64_t first, int64_t last);
  void (*amax_lines)(const AmaxLinesArgs&, int64_t first, int64_t last,
                     Maxima* maxima);
  void (*rotate_lines)(const RotateArgs&, int64_t first, int64_t last,
                       Maxima* seen);
  void (*sum_chunk)(const Matrix&, int64_t first, int64_t last, float* sums);
  void (*sum_chunks)(const float* partial, int64_t chunks, int64_t cols,
                     DType dtype, std::byte* out);
};

extern const TileKernels kBaselineTiles;
extern const TileKernels kAvx2Tiles;
extern const TileKernels kAvx512Tiles;

}  // namespace quantd::cpu

#endif  // QUANTD_KERNELS_CPU_TILES_H_
