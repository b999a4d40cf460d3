// Where the codes and scales of a copy lie, and the padding beside them. Plain
// data: plans size tensors by it, kernels take it.
//
// A "line" is a row for the rowwise copy and a column for the columnwise one;
// a "position" runs along it.
#ifndef QUANTD_KERNELS_ARITH_COPY_ADDRESS_H_
#define QUANTD_KERNELS_ARITH_COPY_ADDRESS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/arith/lanes.h"

namespace quantd {

// Sums of columns are made of so many rows of a group at a time. Kernels walk
// over tiles of so many rows and columns, too.
inline constexpr int kChunkRows = 128;

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

}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_COPY_ADDRESS_H_
