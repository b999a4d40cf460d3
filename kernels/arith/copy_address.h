// Where the codes and the scales of a copy are: the one address formula that
// plans, both devices and clients go by. Plain data; kernels take it.
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

  // Scales: see ScaleIndex.
  int64_t scale_lines = 1;  // lines that share a scale
  int64_t scale_line = 0;
  int64_t scale_block = 0;
  bool swizzled = false;
};

// Swizzled scales are a matrix of lines and blocks in tiles of 128 x 4.
// Distances in a tile: from line to line of a quarter of 32, from quarter to
// quarter, and from tile to tile. Blocks are neighbours.
inline constexpr int kSwizzledLine = 16;
inline constexpr int kSwizzledQuarter = 4;
inline constexpr int kSwizzledTile = 512;

// The number of the tile of (line, block), where `across` tiles stand side by
// side.
template <typename T>
QUANTD_FN constexpr T SwizzledTile(T line, T block, T across) {
  return line / 128 * across + block / 4;
}
// The index of (line, block) where lines have `blocks` blocks. SwizzledTile is
// written out here: the machine code of kernels follows the order of
// operations.
QUANTD_FN constexpr int64_t SwizzledIndex(int64_t line, int64_t block,
                                          int64_t blocks) {
  return (line / 128 * ((blocks + 3) / 4) + block / 4) * kSwizzledTile +
         line % 32 * kSwizzledLine + line % 128 / 32 * kSwizzledQuarter +
         block % 4;
}

// Where the scale of block `block` of line `line` lies, in scales. This of a
// copy's first line or block is also how far a cut there moves its scales.
QUANTD_FN constexpr int64_t ScaleIndex(const CopyAddress& copy, int64_t line,
                                       int64_t block) {
  if (copy.swizzled) return SwizzledIndex(line, block, copy.blocks);
  // Mostly 1: a division would take longer than all the rest.
  const int64_t lines = copy.scale_lines == 1 ? line : line / copy.scale_lines;
  return lines * copy.scale_line + block * copy.scale_block;
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
