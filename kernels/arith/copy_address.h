// The addresses of the codes and scales of a copy. Plans, both kinds of devices
// and clients use these formulas. Plain data that kernels take as an argument.
//
// A "line" is a row for the rowwise copy and a column for the columnwise one; a
// "position" runs along it.
#ifndef QUANTD_KERNELS_ARITH_COPY_ADDRESS_H_
#define QUANTD_KERNELS_ARITH_COPY_ADDRESS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/arith/lanes.h"

namespace quantd {

// The number of rows of a group over which dbias is first summed. Kernels also
// use tiles of this many rows and columns.
inline constexpr int kChunkRows = 128;

struct CopyAddress {
  int64_t lines = 0;
  int64_t positions = 0;  // positions in the matrix
  int64_t padded = 0;     // positions with codes; those beyond the matrix are
                          // zeros
  int64_t blocks = 0;     // scales along a line; 1 for one scale per tensor

  // Codes. Position 0 of line l is at byte l * data_line. Position p of line 0
  // is at p * data_position, in bytes or, for E2M1, in half bytes.
  int64_t data_line = 0;
  int64_t data_position = 1;

  // Scales: see ScaleIndex.
  int64_t scale_lines = 1;  // lines that share a scale
  int64_t scale_line = 0;
  int64_t scale_block = 0;
  bool swizzled = false;
};

// Swizzled scales are a matrix of lines and blocks in tiles of 128 x 4. The
// constants are the distances between lines within a quarter (32 lines) of a
// tile, between quarters, and between tiles. The scales of neighbouring blocks
// are adjacent.
inline constexpr int kSwizzledLine = 16;
inline constexpr int kSwizzledQuarter = 4;
inline constexpr int kSwizzledTile = 512;

// The index of the tile of (line, block), with `across` tiles side by side.
template <typename T>
QUANTD_FN constexpr T SwizzledTile(T line, T block, T across) {
  return line / 128 * across + block / 4;
}
// The index of (line, block), with `blocks` blocks in a line. SwizzledTile is
// written out here because the machine code of kernels follows the order of
// operations.
QUANTD_FN constexpr int64_t SwizzledIndex(int64_t line, int64_t block,
                                          int64_t blocks) {
  return (line / 128 * ((blocks + 3) / 4) + block / 4) * kSwizzledTile +
         line % 32 * kSwizzledLine + line % 128 / 32 * kSwizzledQuarter +
         block % 4;
}

// The index of the scale of block `block` of line `line`. For the first line or
// block of a shard it is also the offset of the shard's scales.
QUANTD_FN constexpr int64_t ScaleIndex(const CopyAddress& copy, int64_t line,
                                       int64_t block) {
  if (copy.swizzled) return SwizzledIndex(line, block, copy.blocks);
  // Usually 1; a division would take longer than the rest of this function.
  const int64_t lines = copy.scale_lines == 1 ? line : line / copy.scale_lines;
  return lines * copy.scale_line + block * copy.scale_block;
}

// Bytes of a tensor that are set to zero: `count` runs of `width` bytes each.
// The first begins at byte `offset` of the tensor, each other one `pitch` bytes
// after the one before it.
struct ZeroRun {
  size_t offset = 0;
  size_t pitch = 0;
  size_t width = 0;
  size_t count = 0;
};

}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_COPY_ADDRESS_H_
