// Loads blocks of 16 elements of rows and columns into lanes, for the tuned
// NVFP4 functions. Included only by sources that are compiled once for each
// instruction set.
#ifndef QUANTD_KERNELS_CPU_ISA_NVFP4_H_
#define QUANTD_KERNELS_CPU_ISA_NVFP4_H_

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
inline constexpr int64_t kBandCols = 128;
template <DType D>
struct Band {
  alignas(64) std::byte v[16 * kBandCols * SizeOf(D)];
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

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_CPU_ISA_NVFP4_H_
