// The CPU's inner loops as a table of functions. Each instruction set has a
// table, and all tables are compiled from the same sources.
//
// Every function works on a range of rows and may run concurrently on different
// ranges; ranges start and end at multiples of kTileRows, except at the last
// row of the matrix. Matrices are row-major without padding. No function
// allocates or fails.
#ifndef QUANTD_KERNELS_CPU_TILES_H_
#define QUANTD_KERNELS_CPU_TILES_H_

#include <cstddef>
#include <cstdint>

#include "kernels/arith/encode.h"
#include "kernels/device/group_task.h"
#include "kernels/plan/error_sums.h"
#include "quantd/format.h"

namespace quantd::cpu {

inline constexpr int64_t kTileRows = kChunkRows;

using quantd::Matrix;

// The function that encodes a copy.
enum class EncodeKernel {
  kNone,          // the copy is not made
  kNvfp4,         // NVFP4 with blocks of 1 x 16 and one amax; makes both copies
  kNvfp4Squares,  // NVFP4 with a scale for 16 x 16 codes; makes both copies at
                  // once
  kFp8Rows,       // FP8 codes without rotation and statistics
  kFp8Columns,    // as kFp8Rows; makes both copies if their codes are equal
  kFp8Squares,    // FP8 with a scale for 128 x 128 codes; makes both copies at
                  // once
  kLines,         // every format and option
};
struct EncodeChoice {
  EncodeKernel rowwise = EncodeKernel::kNone;
  EncodeKernel columnwise = EncodeKernel::kNone;

  bool operator==(const EncodeChoice&) const = default;
};

// Maxima as fp32 bits, with NaN dropped, and whether NaN or Inf was found.
struct Maxima {
  uint32_t plain = 0;
  uint32_t row_rht = 0;
  uint32_t col_rht = 0;
  bool nan = false;  // NaN in the input
  bool inf = false;
  bool row_rht_nan = false;  // NaN in the rotated values
  bool col_rht_nan = false;
};

struct RotateArgs {
  Matrix x;
  std::byte* out;
  DType dtype;
  const float* signs;
  bool inverse;
  int dimension;
};

// Arguments of a search for maxima. Arrays that are not null must hold zeros
// and receive the maxima of each line as fp32 bits. NaN is ordered above Inf if
// `propagate`, and otherwise dropped.
struct AmaxArgs {
  Matrix x;
  int rotation;
  const float* row_signs;  // s[i] * rotation^-1/2, or nullptr for no rotation
  const float* col_signs;
  bool propagate;
  uint32_t* row_lines;  // nullptr: no maxima of lines
  uint32_t* row_rht_lines;
  uint32_t* col_lines;
  uint32_t* col_rht_lines;
};

struct TileKernels {
  // Add the maxima of the rows to `*maxima`. `amax` supports only rotations of
  // dimension 16 and no maxima of lines; amax_lines supports all arguments.
  void (*amax)(const AmaxArgs&, int64_t first, int64_t last, Maxima* maxima);
  void (*amax_lines)(const AmaxArgs&, int64_t first, int64_t last,
                     Maxima* maxima);
  // Encodes the rows with the chosen functions. Sets nan and inf of `*seen`.
  // Adds up errors if statistics are wanted, which only kLines supports.
  void (*quantize)(const EncodeParams&, EncodeChoice, const GroupTask&,
                   int64_t first, int64_t last, Maxima* seen,
                   ErrorSums* row_errors, ErrorSums* col_errors);
  // Decode the rows: dequantize_row and dequantize_col those of a copy in plain
  // NVFP4, dequantize_lines those of any copy.
  void (*dequantize_row)(const DequantizeParams&, const GroupTask&,
                         int64_t first, int64_t last);
  void (*dequantize_col)(const DequantizeParams&, const GroupTask&,
                         int64_t first, int64_t last);
  void (*dequantize_lines)(const DequantizeParams&, const GroupTask&,
                           int64_t first, int64_t last);
  // Rotate the rows: `rotate` in blocks of 16, rotate_lines in blocks of any
  // dimension. Set nan and inf of `*seen`.
  void (*rotate)(const RotateArgs&, int64_t first, int64_t last, Maxima* seen);
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
