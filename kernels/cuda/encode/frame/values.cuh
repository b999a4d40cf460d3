// Loads values from a tile in shared memory into registers. A warp takes
// sixteen lines of a tile, a lane half of a line, sixteen values at a time.
// Code that uses the values does not depend on the direction of lines and the
// type of elements.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FRAME_VALUES_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FRAME_VALUES_CUH_

#include "kernels/cuda/encode/nvfp4/tile_units.cuh"
#include "kernels/cuda/ptx/magnitude.cuh"

namespace quantd::cuda {

// The largest magnitude of n values as fp32 bits. NaN if any value is NaN.
template <int N>
__device__ __forceinline__ uint32_t LargestMagnitude(const float (&v)[N],
                                                     int first, int n) {
  // Four chains, because the operations of a single chain would wait for each
  // other.
  float max[4] = {};
  QUANTD_UNROLL
  for (int i = 0; i < n; ++i) {
    max[i % 4] = LargerMagnitude(max[i % 4], v[first + i]);
  }
  return __float_as_uint(LargerMagnitude(LargerMagnitude(max[0], max[1]),
                                         LargerMagnitude(max[2], max[3])));
}
// The largest magnitude without NaN.
template <int N>
__device__ __forceinline__ uint32_t LargestNumber(const float (&v)[N],
                                                  int first, int n) {
  float max = 0.0f;
  QUANTD_UNROLL
  for (int i = 0; i < n; ++i) max = fmaxf(max, fabsf(v[first + i]));
  return __float_as_uint(max);
}

// The largest magnitude of a block of 16-bit elements as fp32 bits. NaN if any
// element is NaN.
template <DType D>
__device__ __forceinline__ uint32_t LargestIn(const Words& x) {
  const auto& max = MaxOfWords<D>;
  const uint32_t two = max(max(max(x.w[0], x.w[1]), max(x.w[2], x.w[3])),
                           max(max(x.w[4], x.w[5]), max(x.w[6], x.w[7])));
  return __float_as_uint(LowOf<D>(max(two, two >> 16))) & kAbsMask;
}
__device__ __forceinline__ uint32_t LargestOfWords(const Words& x, DType type) {
  if (type == DType::kBF16) return LargestIn<DType::kBF16>(x);
  return LargestIn<DType::kF16>(x);
}

// Loads a warp's lines of 16-bit elements. Block i of a lane is the sixteen
// positions from 64 * (lane / 16) + 16 * i on in line lane % 16.
template <int kBytes, bool kColumns>
class LaneValues {
 public:
  static constexpr uint32_t kExchange =
      kColumns ? sizeof(Exchange::Storage) : 0;

  __device__ __forceinline__ LaneValues(const StagedTileOf<kBytes>& tile,
                                        Exchange::Storage* exchange)
      : lines_(tile), exchange_(exchange) {}

  __device__ __forceinline__ void Load(int i, DType type,
                                       float (&v)[kBlock]) const {
    UnpackAll(Take(i), type, v);
  }
  // Loads a block and returns its largest magnitude as fp32 bits. Returns NaN
  // if any element is NaN.
  __device__ __forceinline__ uint32_t LoadAndFindMax(int i, DType type,
                                                     float (&v)[kBlock]) const {
    const Words x = Take(i);
    UnpackAll(x, type, v);
    return LargestOfWords(x, type);
  }
  __device__ __forceinline__ uint32_t FindMax(int i, DType type) const {
    return LargestOfWords(Take(i), type);
  }
  // Loads a block with a single lane. Seldom called.
  __device__ __forceinline__ void LoadAlone(int i, DType type,
                                            float (&v)[kBlock]) const {
    UnpackAll(Numbered(i).Block(), type, v);
  }
  // Returns block i. All lanes must call this if lines are columns.
  __device__ __forceinline__ Words Take(int i) const {
    const WarpLines<kColumns> lines = Numbered(i);
    if constexpr (kColumns) {
      Gather(lines, exchange_);
      return BlockAt(exchange_.own());
    } else {
      return BlockAt(lines.own_row());
    }
  }
  // The address of a block of a row, for BlockAt.
  __device__ __forceinline__ uint32_t own(int i) const {
    return Numbered(i).own_row();
  }

 private:
  __device__ __forceinline__ WarpLines<kColumns> Numbered(int i) const {
    WarpLines<kColumns> lines = lines_;
    lines.number = static_cast<uint32_t>(i);
    return lines;
  }
  static __device__ __forceinline__ void UnpackAll(const Words& x, DType type,
                                                   float (&v)[kBlock]) {
    if (type == DType::kBF16) {
      Unpack(x, v);
      return;
    }
    QUANTD_UNROLL
    for (int k = 0; k < kBlock / 2; ++k) {
      v[2 * k] = LowOf<DType::kF16>(x.w[k]);
      v[2 * k + 1] = HighOf<DType::kF16>(x.w[k]);
    }
  }

  const WarpLines<kColumns> lines_;
  const Exchange exchange_;
};

// Loads a warp's lines of fp32.
template <bool kColumns>
class LaneValues<4, kColumns> {
 public:
  __device__ __forceinline__ LaneValues(const StagedTileOf<4>& tile,
                                        Exchange::Storage* /*exchange*/) {
    const int lane = static_cast<int>(threadIdx.x % kWarp);
    const int line = static_cast<int>(Team::warp()) * kBlock + lane % kBlock;
    const int first = lane / kBlock * (kTileSide / 2);
    at_ = Kept(SharedAddress(tile.bytes) +
               static_cast<uint32_t>(kColumns ? TileOffset<4>(first, line)
                                              : TileOffset<4>(line, first)));
  }

  __device__ __forceinline__ void Load(int i, DType /*type*/,
                                       float (&v)[kBlock]) const {
    if constexpr (kColumns) {
      const uint32_t at = at_ + static_cast<uint32_t>(i) * kBlock * 128;
      QUANTD_UNROLL
      for (uint32_t k = 0; k < kBlock; ++k) {
        v[k] = __uint_as_float(LoadShared((at ^ k % 8 * 16) + k * 128));
      }
    } else {
      const uint32_t at = at_ + static_cast<uint32_t>(i / 2 * kTileBox);
      QUANTD_UNROLL
      for (uint32_t k = 0; k < 4; ++k) {
        const uint4 w =
            LoadShared4(at ^ (static_cast<uint32_t>(i) % 2 * 64 + k * 16));
        v[4 * k] = __uint_as_float(w.x);
        v[4 * k + 1] = __uint_as_float(w.y);
        v[4 * k + 2] = __uint_as_float(w.z);
        v[4 * k + 3] = __uint_as_float(w.w);
      }
    }
  }
  __device__ __forceinline__ uint32_t LoadAndFindMax(int i, DType type,
                                                     float (&v)[kBlock]) const {
    Load(i, type, v);
    return LargestMagnitude(v, 0, kBlock);
  }
  __device__ __forceinline__ uint32_t FindMax(int i, DType type) const {
    float v[kBlock];
    return LoadAndFindMax(i, type, v);
  }

 private:
  uint32_t at_;
};

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FRAME_VALUES_CUH_
