// The columnwise copy of MXFP8, which lies as the input does: a warp takes the
// 32 rows of a block and 64 columns, a lane two of them, so that codes leave by
// rows.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FRAME_IN_PLACE_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FRAME_IN_PLACE_CUH_

#include "kernels/cuda/encode/frame/cell.cuh"
#include "kernels/cuda/encode/frame/codes.cuh"
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
  uint32_t from;
  DType type;

  __device__ __forceinline__ void Load(int r, float* a, float* b) const {
    LoadPair<kBytes>(from, r, type, a, b);
  }
};
// And rotated.
struct RotatedPair {
  Rotated<kMxRows> columns[2];

  __device__ __forceinline__ void Load(int r, float* a, float* b) const {
    *a = columns[0][r];
    *b = columns[1][r];
  }
};

// Where a lane's two columns of a block are.
struct InPlace {
  int64_t line;
  int64_t position;
};

template <typename C, typename Pair>
__device__ __forceinline__ void StoreInPlace(const EncodeParams& p,
                                             const CopyTask& copy,
                                             const InPlace& at,
                                             const Pair& values) {
  float max[2] = {0.0f, 0.0f};
  float clean[2] = {0.0f, 0.0f};
  QUANTD_UNROLL
  for (int r = 0; r < kMxRows; ++r) {
    float v[2];
    values.Load(r, &v[0], &v[1]);
    QUANTD_UNROLL
    for (int c = 0; c < 2; ++c) {
      max[c] = LargerMagnitude(max[c], v[c]);
      clean[c] = fmaxf(clean[c], fabsf(v[c]));
    }
  }
  BlockScale<Scalar> scales[2];
  QUANTD_UNROLL
  for (int c = 0; c < 2; ++c) {
    scales[c] =
        C::ScaleOf(p, {}, __float_as_uint(max[c]), __float_as_uint(clean[c]));
  }
  const int64_t block = at.position / kMxRows;
  if (copy.swizzled) {
    StoreScale(p, copy, at.line, block, scales[0].stored);
    StoreScale(p, copy, at.line + 1, block, scales[1].stored);
  } else {
    *reinterpret_cast<uint16_t*>(copy.scale +
                                 ScaleIndex(copy, at.line, block)) =
        static_cast<uint16_t>(scales[0].stored | scales[1].stored << 8);
  }
  std::byte* to = copy.data + at.position * copy.data_position + at.line;
  const int64_t left = copy.padded - at.position;
#pragma unroll 8
  for (int r = 0; r < kMxRows; r += 2) {
    float y[4];
    values.Load(r, &y[0], &y[1]);
    values.Load(r + 1, &y[2], &y[3]);
    QUANTD_UNROLL
    for (int i = 0; i < 4; ++i) y[i] = y[i] * scales[i % 2].m;
    const uint32_t word = p.element == DType::kE4M3
                              ? CodesOf<DType::kE4M3>(y[0], y[1], y[2], y[3])
                              : CodesOf<DType::kE5M2>(y[0], y[1], y[2], y[3]);
    if (r < left) {
      *reinterpret_cast<uint16_t*>(to) = static_cast<uint16_t>(word);
    }
    if (r + 1 < left) {
      *reinterpret_cast<uint16_t*>(to + copy.data_position) =
          static_cast<uint16_t>(word >> 16);
    }
    to += 2 * copy.data_position;
  }
}

// Returns Seen bits.
template <typename C, int kBytes>
__device__ __forceinline__ uint32_t EncodeColumnsInPlace(
    const EncodeParams& p, const StagedTileOf<kBytes>& tile, const Place& at,
    const CopyTask& copy, const float* signs) {
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int row = static_cast<int>(Team::warp() % 4) * kMxRows;
  const int column = static_cast<int>(Team::warp() / 4) * 64 + 2 * lane;
  const InPlace place = {int64_t{at.col} + column, int64_t{at.row} + row};
  if (place.position >= copy.padded || column >= at.cols) return 0;
  const PlainPair<kBytes> plain = {
      SharedAddress(tile.bytes) +
          static_cast<uint32_t>(TileOffset<kBytes>(row, column)),
      p.input};
  if (C::kRht && copy.signs != nullptr) {
    const auto rotated = [&](int c) {
      float v[kMxRows];
      QUANTD_UNROLL
      for (int r = 0; r < kMxRows; ++r) {
        float pair[2];
        plain.Load(r, &pair[0], &pair[1]);
        v[r] = pair[c];
      }
      RotateValues(v, copy.rotation, signs);
      return Rotated<kMxRows>(v);
    };
    const RotatedPair pair = {{rotated(0), rotated(1)}};
    StoreInPlace<C>(p, copy, place, pair);
  } else {
    StoreInPlace<C>(p, copy, place, plain);
  }
  uint32_t seen = 0;
#pragma unroll 8
  for (int r = 0; r < kMxRows; ++r) {
    float v[2];
    plain.Load(r, &v[0], &v[1]);
    seen |= SeenIn(LargestMagnitude(v, 0, 2), LargestNumber(v, 0, 2));
  }
  return seen;
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FRAME_IN_PLACE_CUH_
