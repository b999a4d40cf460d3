// Loads blocks of 16 elements of rows and columns into lanes, and stores their
// codes and scales, for the tuned NVFP4 functions. Included only by sources
// that are compiled once for each instruction set.
#ifndef QUANTD_KERNELS_CPU_ISA_NVFP4_H_
#define QUANTD_KERNELS_CPU_ISA_NVFP4_H_

#include "kernels/arith/encode_params.h"
#include "kernels/arith/nvfp4.h"
#include "kernels/cpu/isa/lines.h"
#include "kernels/cpu/isa/transpose.h"
#include "kernels/cpu/tiles.h"

namespace quantd {
inline namespace QUANTD_ARITH {

// The signs of a rotation, each broadcast to every lane.
struct Signs {
  QUANTD_FN explicit Signs(const float* s) {
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < QUANTD_LANES; ++j) lanes[i][j] = s ? s[i] : 0.0f;
    }
  }
  Lane::F lanes[16];
};

// Records NaN and Inf among input values. Called only if there is one.
__attribute__((noinline)) inline void Note(const Lane::F (&v)[16],
                                           cpu::Maxima* seen) {
  for (int i = 0; i < 16; ++i) {
    const Lane::U m = Lane::Bits(v[i]) & kAbsMask;
    for (int j = 0; j < QUANTD_LANES; ++j) {
      seen->nan |= m[j] > kInfBits;
      seen->inf |= m[j] == kInfBits;
    }
  }
}

// Loads W blocks of a row from `p` on, one into each lane. If only `count` < W
// exist, they are copied first, so that no element beyond them is read; the
// remaining lanes hold zeros.
template <DType D>
QUANTD_FN void LoadSomeBlocks(const std::byte* p, int64_t count,
                              Lane::F (&v)[16]) {
  constexpr int W = QUANTD_LANES;
  if (count >= W) {
    LoadBlocks<D, W>(p, v);
    return;
  }
  std::byte buffer[W * 16 * SizeOf(D)] = {};
  __builtin_memcpy(buffer, p, count * 16 * SizeOf(D));
  LoadBlocks<D, W>(buffer, v);
}

// The number of columns of a band. A band is a packed copy of sixteen rows,
// because the rows of a large matrix share cache sets and those of a packed
// copy do not.
// The last row of a band is never used: a load of 16 blocks from the row before
// it takes eight blocks of it, whose lanes are dropped.
inline constexpr int64_t kBandCols = 128;
template <DType D>
struct Band {
  alignas(64) std::byte v[17 * kBandCols * SizeOf(D)];
};

// Copies rows x cols from x(row, col) on, with zeros after them.
template <DType D>
QUANTD_FN void PackBand(const cpu::Matrix& x, int64_t row, int64_t rows,
                        int64_t col, int64_t cols, Band<D>* band) {
  constexpr int64_t kSize = SizeOf(D);
  constexpr int64_t kPitch = kBandCols * kSize;
  const std::byte* from = x.data + (row * x.cols + col) * kSize;
  const int64_t pitch = x.cols * kSize;
  if (rows == 16 && cols == kBandCols) {
    for (int64_t r = 0; r < 16; ++r) {
      StoreBytes<false, kPitch>(from + r * pitch, band->v + r * kPitch);
    }
    return;
  }
  for (int64_t r = 0; r < 16; ++r) {
    std::byte* to = band->v + r * kPitch;
    const int64_t n = r < rows ? cols * kSize : 0;
    if (n > 0) __builtin_memcpy(to, from + r * pitch, n);
    __builtin_memset(to + n, 0, kPitch - n);
  }
}

// Loads W columns of a band, one block into each lane; ColumnOf tells which
// columns. A word of a 16-bit type holds two columns: one for an even vector,
// and one for the odd vector after it.
template <DType D>
QUANTD_FN void LoadColumns(const Band<D>& band, int64_t vector,
                           Lane::F (&v)[16]) {
  constexpr int64_t W = QUANTD_LANES;
  constexpr int64_t kSize = SizeOf(D);
  const int64_t col = kIsHalf<D> ? vector / 2 * 2 * W : vector * W;
  const bool odd = vector % 2 != 0;
  for (int i = 0; i < 16; ++i) {
    Lane::U words;
    __builtin_memcpy(&words, band.v + (i * kBandCols + col) * kSize,
                     sizeof(words));
    if constexpr (D == DType::kF32) {
      v[i] = Lane::Float(words);
    } else if constexpr (D == DType::kBF16) {
      v[i] = Lane::Float(odd ? words & 0xFFFF0000u : words << 16);
    } else {
      v[i] = Decode16<Lane, D>(odd ? words >> 16 : words & 0xFFFFu);
    }
  }
}
template <DType D>
QUANTD_FN constexpr int64_t ColumnOf(int64_t vector, int lane) {
  constexpr int64_t W = QUANTD_LANES;
  return kIsHalf<D> ? (vector / 2 * W + lane) * 2 + vector % 2
                    : vector * W + lane;
}

namespace {

using cpu::kTileRows;

constexpr int W = QUANTD_LANES;

// The counters whose bytes a block of a row and of a column use
// (random_bytes.h). `row` is the row in the payload, and `first` that of the
// group; blocks and columns count within the group.
QUANTD_FN uint64_t RowCounter(const EncodeParams& params, int64_t row,
                              int64_t block) {
  const int64_t per_row = (params.total_columns + 15) / 16;
  return static_cast<uint64_t>((params.row_offset + row) * per_row +
                               params.column_offset / 16 + block);
}
QUANTD_FN uint64_t ColumnCounter(const EncodeParams& params, int64_t first,
                                 int64_t block, int64_t column) {
  return static_cast<uint64_t>(((params.row_offset + first) / 16 + block) *
                                   params.total_columns +
                               params.column_offset + column);
}

// Stores the scales of `count` blocks of a line from `block` on, a multiple of
// 4. Lines of a square that share a scale store it once.
QUANTD_FN void StoreScaleRun(const CopyTask& copy, int64_t line, int64_t block,
                             const std::byte* scales, int64_t count) {
  if (copy.swizzled) {
    for (int64_t i = 0; i < count; i += 4) {
      std::byte* to = copy.scale + SwizzledIndex(line, block + i, copy.blocks);
      if (count - i >= 4) {
        __builtin_memcpy(to, scales + i, 4);
      } else {
        __builtin_memcpy(to, scales + i, count - i);
      }
    }
    return;
  }
  if (copy.scale_lines > 1) {
    if (line % kBlock != 0) return;
    line /= kBlock;
  }
  std::byte* to = copy.scale + line * copy.scale_line + block;
  // The usual counts: that of a group, or that of a column of whole tiles.
  if (count == W) {
    __builtin_memcpy(to, scales, W);
  } else if (count == kTileRows / 16) {
    __builtin_memcpy(to, scales, kTileRows / 16);
  } else {
    __builtin_memcpy(to, scales, count);
  }
}

// Codes and scales of kTileRows rows of a band's columns, before they are
// stored. A column's codes fill a cache line, which is written once.
struct Stage {
  alignas(64) std::byte codes[kBandCols][kTileRows / 2];
  std::byte scales[kBandCols][kTileRows / 16];
};

// Adds the codes of W columns of a band, the block `block` of each.
template <DType D>
QUANTD_FN void StageCodes(Lane::U low, Lane::U high, int64_t vector,
                          int64_t block, Stage* stage) {
  std::byte words[8 * W];
  StorePairs<W>(low, high, words);
  constexpr int64_t kStep = ColumnOf<D>(0, 1) - ColumnOf<D>(0, 0);
  std::byte* codes = stage->codes[ColumnOf<D>(vector, 0)] + 8 * block;
  for (int i = 0; i < W; ++i) {
    __builtin_memcpy(codes + i * kStep * sizeof(stage->codes[0]), words + 8 * i,
                     8);
  }
}

template <bool kStream>
void Flush(const Stage& stage, const CopyTask& copy, int64_t row, int64_t rows,
           int64_t col, int64_t cols) {
  const int64_t blocks = (rows + 15) / 16;
  std::byte* data = copy.data + col * copy.data_line + row / 2;
  for (int64_t c = 0; c < cols; ++c) {
    if (rows == kTileRows) {
      StoreBytes<kStream, kTileRows / 2>(stage.codes[c], data);
    } else {
      __builtin_memcpy(data, stage.codes[c], 8 * blocks);
    }
    StoreScaleRun(copy, col + c, row / 16, stage.scales[c], blocks);
    data += copy.data_line;
  }
}

}  // namespace

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_CPU_ISA_NVFP4_H_
