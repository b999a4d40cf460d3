// The shape of one copy of an M x K matrix: where every code and every scale
// of a format lies. Plan sizes tensors by it, both devices address by it.
//
// A "line" is a row for the rowwise copy and a column for the columnwise one;
// a "position" runs along it.
#ifndef QUANTD_KERNELS_GEOMETRY_H_
#define QUANTD_KERNELS_GEOMETRY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/format.h"
#include "kernels/lanes.h"

namespace quantd {

inline constexpr int64_t CeilDiv(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}
inline constexpr int64_t RoundUp(int64_t a, int64_t b) {
  return CeilDiv(a, b) * b;
}

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

struct CopyGeometry : CopyAddress {
  std::vector<int64_t> data_shape;  // in stored elements
  size_t data_bytes = 0;
  std::vector<int64_t> scale_shape;
  size_t scale_bytes = 0;
};

// `rotation`: dimension of the RHT the copy went through, or 0.
CopyGeometry MakeCopyGeometry(const FormatSpec& format, bool columnwise,
                              int64_t rows, int64_t cols, int rotation,
                              Layout scale_layout, bool compact_scales);

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
// The padding of a scale tensor. Runs may cover what is not padding: they are
// to be written before the scales.
std::vector<ZeroRun> ScalePadding(const FormatSpec& format,
                                  const CopyGeometry& geometry);

}  // namespace quantd

#endif  // QUANTD_KERNELS_GEOMETRY_H_
