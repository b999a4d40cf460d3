// The tile functions of one instruction set. The generic ones support every
// format, dimension and domain. Included only by sources that are compiled once
// for each instruction set.
//
// All functions compute rows [first, last) of a group, where `first` is a
// multiple of kTileRows, and may run concurrently on different rows.
#ifndef QUANTD_KERNELS_CPU_ISA_LINES_H_
#define QUANTD_KERNELS_CPU_ISA_LINES_H_

#include "kernels/arith/nvfp4.h"
#include "kernels/cpu/isa/transpose.h"
#include "kernels/cpu/tiles.h"

namespace quantd {
inline namespace QUANTD_ARITH {

using Lane = Vec<QUANTD_LANES>;

// Encodes the copies: calls the tuned functions that `choice` names, and
// encodes other copies itself.
void QuantizeLines(const EncodeParams& params, cpu::EncodeChoice choice,
                   const GroupTask& group, int64_t first, int64_t last,
                   cpu::Maxima* seen, ErrorSums* row_errors,
                   ErrorSums* col_errors);
void DequantizeLines(const DequantizeParams& params, const GroupTask& group,
                     int64_t first, int64_t last);
void AmaxLines(const cpu::AmaxArgs& args, int64_t first, int64_t last,
               cpu::Maxima* out);
void RotateLines(const cpu::RotateArgs& args, int64_t first, int64_t last,
                 cpu::Maxima* seen);
// Sums the columns of one chunk, which has rows [first, last).
void SumChunk(const cpu::Matrix& x, int64_t first, int64_t last, float* sums);
// Sums the `cols` column sums of `chunks` chunks, and rounds to `dtype`.
void SumChunks(const float* partial, int64_t chunks, int64_t cols, DType dtype,
               std::byte* out);

// Writes NVFP4 copies with blocks of 1 x 16 and one amax, rotated in blocks of
// 16 or not rotated, without statistics. `first` and `last` must be multiples
// of kTileRows, but `last` may be the end of the group. Sets nan and inf of
// `*seen`. Stochastic rounding requires DrawsWhole (kernels/device/recipe.h).
void QuantizeNvfp4(const EncodeParams& params, const GroupTask& group,
                   int64_t first, int64_t last, cpu::Maxima* seen);

// Like QuantizeNvfp4, for one scale per 16 x 16 codes. No rotation.
void QuantizeNvfp4Squares(const EncodeParams& params, const GroupTask& group,
                          int64_t first, int64_t last, cpu::Maxima* seen);

// Each of these functions writes an unrotated copy of FP8 codes without square
// blocks, and sets nan and inf of `*seen`.
void QuantizeFp8Rows(const EncodeParams& params, const GroupTask& group,
                     int64_t first, int64_t last, cpu::Maxima* seen);
// `rows_too`: also writes the rowwise copy, which requires SameFp8Codes.
void QuantizeFp8Columns(const EncodeParams& params, const GroupTask& group,
                        bool rows_too, int64_t first, int64_t last,
                        cpu::Maxima* seen);
// Whether two unrotated copies hold the same codes.
bool SameFp8Codes(const EncodeParams& params, const CopyTask& a,
                  const CopyTask& b);

// Writes the copies with one scale per 128 x 128 codes, and sets nan and inf of
// `*seen`.
void QuantizeFp8Squares(const EncodeParams& params, const GroupTask& group,
                        int64_t first, int64_t last, cpu::Maxima* seen);

// A tile in fp32, with zeros beyond the matrix. The pitch puts its rows into
// different cache sets.
inline constexpr int64_t kTile = 128;
inline constexpr int64_t kPitch = kTile + 16;
struct Tile {
  alignas(64) float v[kTile * kPitch];
  int64_t filled = kTile;  // rows from here on hold zeros
  int64_t wide = kTile;    // columns from here on hold zeros

  float* at(int64_t row, int64_t col) { return v + row * kPitch + col; }
};

// Loads `tile` from x(row, col) on, and sets nan and inf of `*seen`. Rows below
// the matrix become zeros up to a multiple of `unit`, at least 16. When a tile
// is reused, its number of rows must not grow.
void LoadTile(const cpu::Matrix& x, int64_t row, int64_t col, int64_t unit,
              Tile* tile, cpu::Maxima* seen);
// Stores rows x cols of a tile in `out`, a matrix of `stride` columns.
void StoreTile(Tile& tile, int64_t rows, int64_t cols, DType dtype,
               int64_t stride, std::byte* out);

// Loads n positions, a multiple of 4, of W lines of a tile, a line in each
// lane.
QUANTD_FN void LoadSpan(Tile& tile, bool columnwise, int64_t line,
                        int64_t position, int n, Lane::F* v) {
  constexpr int W = QUANTD_LANES;
  if (columnwise) {
    for (int i = 0; i < n; ++i) {
      // Copies through a register. GCC copies from memory to memory in 16-byte
      // moves, and a load of all lanes would wait for both stores.
      Lane::F lanes;
      __builtin_memcpy(&lanes, tile.at(position + i, line), sizeof(lanes));
      v[i] = lanes;
    }
    return;
  }
  const auto* rows =
      reinterpret_cast<const std::byte*>(tile.at(line, position));
  for (int c = 0; c < n / 4; ++c) {
    Lane::U words[4];
    LoadWords<W>(rows, kPitch * sizeof(float), c, words);
    for (int i = 0; i < 4; ++i) v[4 * c + i] = Lane::Float(words[i]);
  }
}
QUANTD_FN void StoreSpan(const Lane::F* v, bool columnwise, int64_t line,
                         int64_t position, int n, Tile* tile) {
  constexpr int W = QUANTD_LANES;
  if (columnwise) {
    for (int i = 0; i < n; ++i) {
      const Lane::F lanes = v[i];
      __builtin_memcpy(tile->at(position + i, line), &lanes, sizeof(lanes));
    }
    return;
  }
  auto* rows = reinterpret_cast<std::byte*>(tile->at(line, position));
  for (int c = 0; c < n / 4; ++c) {
    Lane::U words[4];
    for (int i = 0; i < 4; ++i) words[i] = Lane::Bits(v[4 * c + i]);
    StoreWords<W>(words, rows, kPitch * sizeof(float), c);
  }
}

// Rotates n values in blocks of `rotation` and rounds them to bf16.
QUANTD_FN void RotateSpan(Lane::F* v, int n, int rotation, const float* signs) {
  for (int b = 0; b < n; b += rotation) {
    RotateForwardOf<Lane>(v + b, rotation, signs);
  }
  for (int i = 0; i < n; i += kBlock) {
    if (!AreNumbers<Lane>(v + i)) {
      for (int j = i; j < i + kBlock; ++j) {
        v[j] = Lane::Float(EncodeBf16<Lane>(v[j]) << 16);
      }
      continue;
    }
    QUANTD_UNROLL
    for (int j = 0; j < kBlock; ++j) v[i + j] = RoundToBf16<Lane>(v[i + j]);
  }
}

// Calls fn.template operator()<D>() for the run-time type.
template <typename Fn>
QUANTD_FN void ForDType(DType d, Fn fn) {
  switch (d) {
    case DType::kF32:
      return fn.template operator()<DType::kF32>();
    case DType::kF16:
      return fn.template operator()<DType::kF16>();
    default:
      return fn.template operator()<DType::kBF16>();
  }
}

inline int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }

// Whether two copies have an amax, and the same one.
inline bool SameAmax(const CopyTask& a, const CopyTask& b) {
  return a.amax && b.amax && Scalar::Bits(*a.amax) == Scalar::Bits(*b.amax);
}

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_CPU_ISA_LINES_H_
