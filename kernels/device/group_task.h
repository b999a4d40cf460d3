// Addresses of one group of rows and of its copies, as kernels take them. Plain
// data; kernels/device/task.h makes it of a plan.
//
// A "line" is a row for the rowwise copy and a column for the columnwise one;
// a "position" runs along it.
#ifndef QUANTD_KERNELS_DEVICE_GROUP_TASK_H_
#define QUANTD_KERNELS_DEVICE_GROUP_TASK_H_

#include <cstddef>
#include <cstdint>

#include "kernels/arith/lanes.h"
#include "kernels/plan/format.h"

namespace quantd {

// Sums of columns are made of so many rows of a group at a time. Kernels walk
// over tiles of so many rows and columns, too.
inline constexpr int kChunkRows = 128;

// A tensor as one matrix, row-major without padding.
struct Matrix {
  const std::byte* data;
  DType dtype;  // f32, f16 or bf16
  int64_t rows;
  int64_t cols;
};

// Where the codes and scales of a copy are. Plain data: kernels take it.
struct CopyAddress {
  int64_t lines = 0;
  int64_t positions = 0;  // of the matrix
  int64_t padded = 0;     // positions that have codes, zeros after the matrix
  int64_t blocks = 0;     // scales along a line; 1 where a tensor has one

  // Codes. Byte of position 0 of line l: l * data_line; of position p of line
  // 0: p * data_position (in half bytes for E2M1).
  int64_t data_line = 0;
  int64_t data_position = 1;

  // Scales, in elements: of block b of line l, where the layout is linear,
  // l / scale_lines * scale_line + b * scale_block.
  int64_t scale_lines = 1;
  int64_t scale_line = 0;
  int64_t scale_block = 0;
  bool swizzled = false;  // SwizzledIndex(l, b, blocks) instead
};

// Index of (row, column) of a matrix of that many columns, in 128 x 4 tiles.
QUANTD_FN constexpr int64_t SwizzledIndex(int64_t row, int64_t column,
                                          int64_t columns) {
  return (row / 128 * ((columns + 3) / 4) + column / 4) * 512 + row % 32 * 16 +
         row % 128 / 32 * 4 + column % 4;
}

// Bytes of a tensor that hold nothing but zeros: `count` runs of `width`,
// `pitch` bytes apart, the first one `offset` bytes into the tensor.
struct ZeroRun {
  size_t offset = 0;
  size_t pitch = 0;
  size_t width = 0;
  size_t count = 0;
};
// One copy of one group. Lines and positions are the group's own.
struct CopyTask : CopyAddress {
  std::byte* data = nullptr;   // nullptr: this copy is not wanted
  std::byte* scale = nullptr;  // codes, or fp32
  // Line l's amax is amax[l * amax_line]; nullptr: the format has none.
  float* amax = nullptr;
  int64_t amax_line = 0;
  // kTensor: the scale, not inverted.
  float* tensor_scale = nullptr;
  const float* signs = nullptr;  // s[i] * rotation^-1/2; nullptr: no rotation
  int rotation = 0;
};

struct GroupTask {
  const std::byte* x = nullptr;  // its first row, K elements a row
  int64_t row = 0;               // in the payload
  int64_t rows = 0;
  CopyTask rowwise;
  CopyTask columnwise;
  float* amax = nullptr;  // kAmax's slot
  // dbias: partial sums of each 128 rows, K each; and the output's slot.
  float* partial = nullptr;
  std::byte* dbias = nullptr;
};

// What all groups of a Dequantize share.
struct DequantizeParams {
  Scaling scaling;
  DType element;
  DType output;
  int block;  // 0: the tensor
  float f6;   // as EncodeParams'
  int64_t cols;
  bool columnwise;
};
}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_GROUP_TASK_H_
