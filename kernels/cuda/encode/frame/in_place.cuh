// The columnwise copy of MXFP8, which lies as the input does: a lane takes two
// columns and the 32 rows of a block, so that codes leave by rows.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FRAME_IN_PLACE_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FRAME_IN_PLACE_CUH_

#include "kernels/cuda/encode/frame/cell.cuh"
#include "kernels/cuda/encode/frame/codes/codes.cuh"
#include "kernels/cuda/encode/frame/values.cuh"

namespace quantd::cuda {

inline constexpr int kMxRows = 32;

// The two columns of a lane, at row `r` of the tile.
template <int kBytes>
__device__ __forceinline__ void LoadPair(uint32_t at, int r, DType type,
                                         float* a, float* b) {
  const uint32_t from =
      (at ^ static_cast<uint32_t>(r % 8 * 16)) + static_cast<uint32_t>(r * 128);
  if constexpr (kBytes == 4) {
    const uint2 w = LoadShared2(from);
    *a = __uint_as_float(w.x);
    *b = __uint_as_float(w.y);
  } else {
    const uint32_t word = LoadShared(from);
    if (type == DType::kBF16) {
      *a = LowOf(word);
      *b = HighOf(word);
    } else {
      UnpackF16(word, a, b);
    }
  }
}

// The lane's two columns of a block, as they are read: again whenever they are
// wanted, since registers are shorter than shared memory.
template <int kBytes>
struct PlainPair {
  static constexpr int kAtOnce = 8;  // rows
  uint32_t from;
  DType type;

  __device__ __forceinline__ void Load(int r, float* a, float* b) const {
    LoadPair<kBytes>(from, r, type, a, b);
  }
  __device__ __forceinline__ void FindMaxima(uint32_t (&max)[2]) const {
    float m[2] = {0.0f, 0.0f};
    QUANTD_UNROLL
    for (int r = 0; r < kMxRows; ++r) {
      float v[2];
      Load(r, &v[0], &v[1]);
      QUANTD_UNROLL
      for (int c = 0; c < 2; ++c) m[c] = LargerMagnitude(m[c], v[c]);
    }
    QUANTD_UNROLL
    for (int c = 0; c < 2; ++c) max[c] = __float_as_uint(m[c]);
  }
};
// And rotated, of the lines that the warp has written.
struct RotatedPair {
  static constexpr int kAtOnce = kMxRows;  // registers have no index
  uint4 columns[2][4];

  __device__ __forceinline__ RotatedPair(const StagedTile& lines, int row,
                                         int column) {
    const uint32_t base = SharedAddress(lines.bytes);
    QUANTD_UNROLL
    for (int c = 0; c < 2; ++c) {
      const uint32_t from =
          base + static_cast<uint32_t>(TileOffset(column + c, row));
      QUANTD_UNROLL
      for (uint32_t i = 0; i < 4; ++i)
        columns[c][i] = LoadShared4(from ^ i * 16);
    }
  }

  __device__ __forceinline__ void Load(int r, float* a, float* b) const {
    *a = Value(columns[0][r / 8], r % 8);
    *b = Value(columns[1][r / 8], r % 8);
  }
  __device__ __forceinline__ void FindMaxima(uint32_t (&max)[2]) const {
    QUANTD_UNROLL
    for (int c = 0; c < 2; ++c) {
      uint32_t m = 0;
      QUANTD_UNROLL
      for (int i = 0; i < 4; ++i) {
        const uint4& w = columns[c][i];
        m = MaxOfWords(m,
                       MaxOfWords(MaxOfWords(w.x, w.y), MaxOfWords(w.z, w.w)));
      }
      max[c] = LargerHalf(m & 0x7FFF7FFFu);
    }
  }

 private:
  static __device__ __forceinline__ float Value(const uint4& eight, int i) {
    const uint32_t words[4] = {eight.x, eight.y, eight.z, eight.w};
    return i % 2 == 0 ? LowOf(words[i / 2]) : HighOf(words[i / 2]);
  }
};

// Where a lane's two columns of a block are.
struct InPlace {
  int64_t line;
  int64_t position;
};

// The codes of a lane's two columns straight to memory.
struct PairOfColumns {
  std::byte* to;
  int64_t pitch;
  int64_t left;  // rows that the copy has

  __device__ __forceinline__ PairOfColumns(const CopyTask& copy,
                                           const InPlace& at)
      : to(copy.data + at.position * copy.data_position + at.line),
        pitch(copy.data_position),
        left(copy.padded - at.position) {}
  // Of rows r, which is even, and r + 1: two codes each.
  __device__ __forceinline__ void Store(int r, uint32_t word) {
    if (r < left) {
      *reinterpret_cast<uint16_t*>(to) = static_cast<uint16_t>(word);
    }
    if (r + 1 < left) {
      *reinterpret_cast<uint16_t*>(to + pitch) =
          static_cast<uint16_t>(word >> 16);
    }
    to += 2 * pitch;
  }
};

// Those of a warp's sixteen columns, which leave by rows: in its own part of
// rotated lines, once these have been read. Rows of sixteen bytes are exchanged
// with one of three neighbours, for the banks.
class SixteenColumns {
 public:
  __device__ __forceinline__ explicit SixteenColumns(const StagedTile& lines)
      : base_(SharedAddress(lines.bytes) + Team::warp() * kBlock * 128) {
    const uint32_t lane = threadIdx.x % kWarp;
    quarter_ = lane / 8;
    own_ = base_ + quarter_ * kMxRows * 16 + lane % 8 * 2;
  }
  __device__ __forceinline__ void Store(int r, uint32_t word) const {
    StoreShared16(own_ + (static_cast<uint32_t>(r) ^ quarter_) * 16,
                  word & 0xFFFFu);
    StoreShared16(own_ + (static_cast<uint32_t>(r + 1) ^ quarter_) * 16,
                  word >> 16);
  }
  // All lanes must call this when all have been set. `at` is the first row and
  // column of the sixteen, which have `columns`.
  __device__ __forceinline__ void Flush(const CopyTask& copy, const InPlace& at,
                                        int columns) const {
    __syncwarp();
    std::byte* const first =
        copy.data + at.position * copy.data_position + at.line;
    const bool whole =
        columns >= kBlock && IsAligned(first) && copy.data_position % 16 == 0;
    const auto lane = static_cast<int>(threadIdx.x % kWarp);
    QUANTD_UNROLL
    for (int q = 0; q < kTileSide / kMxRows; ++q) {
      const int row = q * kMxRows + lane;
      if (at.position + row >= copy.padded) break;
      const uint4 w = LoadShared4(base_ + static_cast<uint32_t>(row ^ q) * 16);
      std::byte* const to = first + row * copy.data_position;
      if (whole) {
        StoreGlobal(w, to);
      } else {
        const uint32_t words[4] = {w.x, w.y, w.z, w.w};
        for (int i = 0; i < kBlock && i < columns; ++i) {
          to[i] = static_cast<std::byte>(words[i / 4] >> (8 * (i % 4)));
        }
      }
    }
    __syncwarp();
  }

 private:
  uint32_t base_;
  uint32_t own_;
  uint32_t quarter_;  // of the lane's rows
};

// Encodes a lane's two columns of a block. `codes` stores them.
template <typename C, typename Pair, typename Codes>
__device__ __forceinline__ void EncodePair(const EncodeParams& p,
                                           const CopyTask& copy,
                                           const InPlace& at,
                                           const Pair& values, Codes* codes) {
  uint32_t max[2];
  values.FindMaxima(max);
  uint32_t clean[2] = {max[0], max[1]};
  if (max[0] > kInfBits || max[1] > kInfBits) {
    float m[2] = {0.0f, 0.0f};
    QUANTD_UNROLL
    for (int r = 0; r < kMxRows; ++r) {
      float v[2];
      values.Load(r, &v[0], &v[1]);
      QUANTD_UNROLL
      for (int c = 0; c < 2; ++c) m[c] = fmaxf(m[c], fabsf(v[c]));
    }
    QUANTD_UNROLL
    for (int c = 0; c < 2; ++c) clean[c] = __float_as_uint(m[c]);
  }
  BlockScale<Scalar> scales[2];
  QUANTD_UNROLL
  for (int c = 0; c < 2; ++c) scales[c] = C::ScaleOf(p, {}, max[c], clean[c]);
  const int64_t block = at.position / kMxRows;
  if (copy.swizzled) {
    StoreScale(p, copy, at.line, block, scales[0].stored);
    StoreScale(p, copy, at.line + 1, block, scales[1].stored);
  } else {
    *reinterpret_cast<uint16_t*>(copy.scale +
                                 ScaleIndex(copy, at.line, block)) =
        static_cast<uint16_t>(scales[0].stored | scales[1].stored << 8);
  }
#pragma unroll(Pair::kAtOnce / 2)
  for (int r = 0; r < kMxRows; r += 2) {
    float y[4];
    values.Load(r, &y[0], &y[1]);
    values.Load(r + 1, &y[2], &y[3]);
    QUANTD_UNROLL
    for (int i = 0; i < 4; ++i) y[i] = y[i] * scales[i % 2].m;
    codes->Store(r, p.element == DType::kE4M3
                        ? CodesOf<DType::kE4M3>(y[0], y[1], y[2], y[3])
                        : CodesOf<DType::kE5M2>(y[0], y[1], y[2], y[3]));
  }
}

// Where a lane's two columns of a tile are that 32 rows have together. Plain: a
// warp's 64 columns, whose codes leave by pieces of 64 bytes. Rotated: the
// sixteen columns that the warp has rotated, so that it waits for no other one.
template <bool kRotated>
struct OwnPair {
  int row;
  int column;

  __device__ __forceinline__ OwnPair() {
    const auto warp = static_cast<int>(Team::warp());
    const auto lane = static_cast<int>(threadIdx.x % kWarp);
    if constexpr (kRotated) {
      row = lane / 8 * kMxRows;
      column = warp * kBlock + 2 * (lane % 8);
    } else {
      row = warp % 4 * kMxRows;
      column = warp / 4 * 64 + 2 * lane;
    }
  }
  // Whether the copy has anything of it.
  __device__ __forceinline__ bool is_in(const Place& at,
                                        const CopyTask& copy) const {
    return int64_t{at.row} + row < copy.padded && column < at.cols;
  }
  __device__ __forceinline__ InPlace place(const Place& at) const {
    return {int64_t{at.col} + column, int64_t{at.row} + row};
  }
};

// Returns Seen bits.
template <typename C, int kBytes>
__device__ __forceinline__ uint32_t
EncodeColumnsInPlace(const EncodeParams& p, const StagedTileOf<kBytes>& tile,
                     const Place& at, const CopyTask& copy) {
  const OwnPair<false> own;
  if (!own.is_in(at, copy)) return 0;
  const PlainPair<kBytes> plain = {
      SharedAddress(tile.bytes) +
          static_cast<uint32_t>(TileOffset<kBytes>(own.row, own.column)),
      p.input};
  const InPlace place = own.place(at);
  PairOfColumns codes(copy, place);
  EncodePair<C>(p, copy, place, plain, &codes);
  uint32_t seen = 0;
#pragma unroll 8
  for (int r = 0; r < kMxRows; ++r) {
    float v[2];
    plain.Load(r, &v[0], &v[1]);
    seen |= SeenIn(LargestMagnitude(v, 0, 2), LargestNumber(v, 0, 2));
  }
  return seen;
}
// Likewise of columns that the warp has rotated. All lanes must call this.
template <typename C>
__device__ __forceinline__ void EncodeRotatedInPlace(const EncodeParams& p,
                                                     const StagedTile& lines,
                                                     const Place& at,
                                                     const CopyTask& copy) {
  __syncwarp();
  const OwnPair<true> own;
  const RotatedPair pair(lines, own.row, own.column);
  __syncwarp();
  SixteenColumns codes(lines);
  if (own.is_in(at, copy)) {
    EncodePair<C>(p, copy, own.place(at), pair, &codes);
  }
  const auto first = static_cast<int>(Team::warp()) * kBlock;
  codes.Flush(copy, {int64_t{at.col} + first, at.row}, at.cols - first);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FRAME_IN_PLACE_CUH_
