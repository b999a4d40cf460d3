// Encodes columnwise MXFP8, whose codes are not transposed. A lane takes two
// columns and the 32 rows of a block, so that a warp stores parts of rows.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FRAME_IN_PLACE_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FRAME_IN_PLACE_CUH_

#include "kernels/cuda/encode/frame/cell.cuh"
#include "kernels/cuda/encode/frame/codes/codes.cuh"
#include "kernels/cuda/encode/frame/values.cuh"

namespace quantd::cuda {

inline constexpr int kMxRows = 32;
inline constexpr int kRowsAtOnce = 8;

// Loads row `r` of a lane's two columns. `at` is the address of row 0.
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
      *a = LowOf<DType::kF16>(word);
      *b = HighOf<DType::kF16>(word);
    }
  }
}

// The lane's two columns of a block. They are read again whenever they are
// needed, because registers are scarcer than shared memory.
template <int kBytes>
struct PlainPair {
  uint32_t from;
  DType type;

  __device__ __forceinline__ void Load(int r, float* a, float* b) const {
    LoadPair<kBytes>(from, r, type, a, b);
  }
  __device__ __forceinline__ void FindMaxima(uint32_t (&max)[2]) const {
    if constexpr (kBytes == 2) {
      // A row's two elements are one word.
      const bool bf16 = type == DType::kBF16;
      const auto larger = [bf16](uint32_t a, uint32_t b) {
        return bf16 ? MaxOfWords<DType::kBF16>(a, b)
                    : MaxOfWords<DType::kF16>(a, b);
      };
      uint32_t m[2] = {};
      QUANTD_UNROLL
      for (int r = 0; r < kMxRows; ++r) {
        const uint32_t word = Word(r);
        m[r % 2] = larger(m[r % 2], word);
      }
      const uint32_t two = larger(m[0], m[1]) & 0x7FFF7FFFu;
      const float v[2] = {bf16 ? LowOf(two) : LowOf<DType::kF16>(two),
                          bf16 ? HighOf(two) : HighOf<DType::kF16>(two)};
      max[0] = __float_as_uint(v[0]) & kAbsMask;
      max[1] = __float_as_uint(v[1]) & kAbsMask;
    } else {
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
  }
  // Finds the maxima without NaN. Returns Seen bits. Seldom called.
  __device__ __forceinline__ uint32_t FindNumbers(uint32_t (&max)[2]) const {
    max[0] = max[1] = 0;
    uint32_t seen = 0;
#pragma unroll 1
    for (int r = 0; r < kMxRows; ++r) {
      float v[2];
      Load(r, &v[0], &v[1]);
      QUANTD_UNROLL
      for (int c = 0; c < 2; ++c) {
        max[c] = __float_as_uint(fmaxf(__uint_as_float(max[c]), fabsf(v[c])));
      }
      seen |= SeenIn(LargestMagnitude(v, 0, 2), LargestNumber(v, 0, 2));
    }
    return seen;
  }

 private:
  __device__ __forceinline__ uint32_t Word(int r) const {
    return LoadShared((from ^ static_cast<uint32_t>(r % 8 * 16)) +
                      static_cast<uint32_t>(r * 128));
  }
};

// The position of a lane's two columns of a block in the copy.
struct InPlace {
  int64_t line;
  int64_t position;
};

// Writes the codes of a lane's two columns directly to memory.
struct PairOfColumns {
  std::byte* to;
  int64_t pitch;
  int64_t left;  // rows of the copy that are left

  __device__ __forceinline__ PairOfColumns(const CopyTask& copy,
                                           const InPlace& at)
      : to(copy.data + at.position * copy.data_position + at.line),
        pitch(copy.data_position),
        left(copy.padded - at.position) {}
  // Stores the codes of both columns in row r, which is even, and in row r + 1.
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

// Stores the scales of the two columns.
__device__ __forceinline__ void StorePairOfScales(const CopyTask& copy,
                                                  const InPlace& at,
                                                  uint32_t first,
                                                  uint32_t second) {
  const int64_t block = at.position / kMxRows;
  std::byte* const to = copy.scale + ScaleIndex(copy, at.line, block);
  if (copy.swizzled) {
    // (The first column's number is even, so both are in the same 32 lines.)
    to[0] = static_cast<std::byte>(first);
    to[kSwizzledLine] = static_cast<std::byte>(second);
  } else {
    *reinterpret_cast<uint16_t*>(to) =
        static_cast<uint16_t>(first | second << 8);
  }
}

// --- columns without rotation -----------------------------------------------

// Encodes a lane's two columns of a block. Returns Seen bits.
template <typename C, int kBytes>
__device__ __forceinline__ uint32_t
EncodePair(const EncodeParams& p, const CopyTask& copy, const InPlace& at,
           const PlainPair<kBytes>& values) {
  uint32_t max[2];
  values.FindMaxima(max);
  uint32_t clean[2] = {max[0], max[1]};
  uint32_t seen = 0;
  if (max[0] >= kInfBits || max[1] >= kInfBits) {
    seen = values.FindNumbers(clean);
  }
  BlockScale<Scalar> scales[2];
  QUANTD_UNROLL
  for (int c = 0; c < 2; ++c) scales[c] = C::ScaleOf(p, {}, max[c], clean[c]);
  StorePairOfScales(copy, at, scales[0].stored, scales[1].stored);
  PairOfColumns codes(copy, at);
#pragma unroll(kRowsAtOnce / 2)
  for (int r = 0; r < kMxRows; r += 2) {
    float y[4];
    values.Load(r, &y[0], &y[1]);
    values.Load(r + 1, &y[2], &y[3]);
    QUANTD_UNROLL
    for (int i = 0; i < 4; ++i) y[i] = y[i] * scales[i % 2].m;
    codes.Store(r, p.element == DType::kE4M3
                       ? CodesOf<DType::kE4M3>(y[0], y[1], y[2], y[3])
                       : CodesOf<DType::kE5M2>(y[0], y[1], y[2], y[3]));
  }
  return seen;
}

// The position of a lane's two columns and 32 rows in a tile. A warp has 64
// columns, so it stores pieces of 64 bytes.
struct OwnPair {
  int row;
  int column;

  __device__ __forceinline__ OwnPair() {
    const auto warp = static_cast<int>(Team::warp());
    row = warp % 4 * kMxRows;
    column = warp / 4 * 64 + 2 * static_cast<int>(threadIdx.x % kWarp);
  }
};

// Whether the copy contains a part of two columns of a block, and the position
// of the columns in the copy.
__device__ __forceinline__ bool IsIn(const Place& at, const CopyTask& copy,
                                     int row, int column) {
  return int64_t{at.row} + row < copy.padded && column < at.cols;
}
__device__ __forceinline__ InPlace PlaceOfPair(const Place& at, int row,
                                               int column) {
  return {int64_t{at.col} + column, int64_t{at.row} + row};
}

// Encodes the warp's columns. Returns Seen bits.
template <typename C, int kBytes>
__device__ __forceinline__ uint32_t
EncodeColumnsInPlace(const EncodeParams& p, const StagedTileOf<kBytes>& tile,
                     const Place& at, const CopyTask& copy) {
  const OwnPair own;
  if (!IsIn(at, copy, own.row, own.column)) return 0;
  const PlainPair<kBytes> plain = {
      SharedAddress(tile.bytes) +
          static_cast<uint32_t>(TileOffset<kBytes>(own.row, own.column)),
      p.input};
  return EncodePair<C>(p, copy, PlaceOfPair(at, own.row, own.column), plain);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FRAME_IN_PLACE_CUH_
