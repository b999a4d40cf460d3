// Rotates a warp's sixteen lines into shared memory, as bf16. Lines are stored
// as rows, even if they are columns. So the code that encodes them is the same
// for both copies, and rotations take no registers from it.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FRAME_ROTATED_LINES_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FRAME_ROTATED_LINES_CUH_

#include "kernels/cuda/encode/frame/values.cuh"

namespace quantd::cuda {

// The lane's quarter of a line: 32 positions. A warp has eight lines at a time.
struct Quarter {
  static constexpr int kLength = 32;
  int line;   // within the tile
  int first;  // first position

  // `eighth`, 0 or 1, selects eight of the warp's lines.
  __device__ __forceinline__ explicit Quarter(int eighth) {
    const auto lane = static_cast<int>(threadIdx.x % kWarp);
    line = static_cast<int>(Team::warp()) * kBlock + eighth * 8 + lane % 8;
    first = lane / 8 * kLength;
  }
};

// Loads the values of a quarter of a row.
template <DType D>
__device__ __forceinline__ void LoadQuarter(const StagedTile& tile,
                                            const Quarter& q,
                                            float (&v)[Quarter::kLength]) {
  const uint32_t at = SharedAddress(tile.bytes) +
                      static_cast<uint32_t>(TileOffset(q.line, q.first));
  QUANTD_UNROLL
  for (uint32_t i = 0; i < 4; ++i) {
    const uint4 w = LoadShared4(at ^ i * 16);
    const uint32_t words[4] = {w.x, w.y, w.z, w.w};
    QUANTD_UNROLL
    for (int k = 0; k < 4; ++k) {
      v[8 * i + 2 * k] = LowOf<D>(words[k]);
      v[8 * i + 2 * k + 1] = HighOf<D>(words[k]);
    }
  }
}
__device__ __forceinline__ void LoadQuarter(const StagedTile& tile,
                                            const Quarter& q, DType type,
                                            float (&v)[Quarter::kLength]) {
  // (One branch for all words: a selection for each would issue both
  // conversions.)
  if (type == DType::kBF16) {
    LoadQuarter<DType::kBF16>(tile, q, v);
  } else {
    LoadQuarter<DType::kF16>(tile, q, v);
  }
}
// (Loads of columns of fp32 have bank conflicts and take four times as long as
// those of rows. Exchanging elements first took even longer.)
template <bool kColumns>
__device__ __forceinline__ void LoadQuarter(const StagedTileOf<4>& tile,
                                            const Quarter& q,
                                            float (&v)[Quarter::kLength]) {
  const uint32_t at =
      SharedAddress(tile.bytes) +
      static_cast<uint32_t>(kColumns ? TileOffset<4>(q.first, q.line)
                                     : TileOffset<4>(q.line, q.first));
  if constexpr (kColumns) {
    QUANTD_UNROLL
    for (uint32_t k = 0; k < Quarter::kLength; ++k) {
      v[k] = __uint_as_float(LoadShared((at ^ k % 8 * 16) + k * 128));
    }
  } else {
    QUANTD_UNROLL
    for (uint32_t i = 0; i < Quarter::kLength / 4; ++i) {
      const uint4 w = LoadShared4(at ^ i * 16);
      v[4 * i] = __uint_as_float(w.x);
      v[4 * i + 1] = __uint_as_float(w.y);
      v[4 * i + 2] = __uint_as_float(w.z);
      v[4 * i + 3] = __uint_as_float(w.w);
    }
  }
}

__device__ __forceinline__ void StoreQuarter(
    StagedTile* lines, const Quarter& q, const float (&v)[Quarter::kLength]) {
  const uint32_t at = SharedAddress(lines->bytes) +
                      static_cast<uint32_t>(TileOffset(q.line, q.first));
  QUANTD_UNROLL
  for (uint32_t i = 0; i < 4; ++i) {
    const float* f = v + 8 * i;
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at ^ i * 16),
                 "r"(PackBf16(f[0], f[1])), "r"(PackBf16(f[2], f[3])),
                 "r"(PackBf16(f[4], f[5])), "r"(PackBf16(f[6], f[7]))
                 : "memory");
  }
}

// --- the butterfly ----------------------------------------------------------

// A stage of the butterfly within a lane's registers.
__device__ __forceinline__ void AddPairs(int stride,
                                         float (&v)[Quarter::kLength]) {
  QUANTD_UNROLL
  for (int i = 0; i < Quarter::kLength; ++i) {
    if ((i & stride) != 0) continue;
    const float a = v[i];
    const float b = v[i + stride];
    v[i] = a + b;
    v[i + stride] = a - b;
  }
}
// A stage of the butterfly between lanes.
__device__ __forceinline__ void AddLanes(int lanes,
                                         float (&v)[Quarter::kLength]) {
  const float sign =
      (static_cast<int>(threadIdx.x) & lanes) != 0 ? -1.0f : 1.0f;
  QUANTD_UNROLL
  for (float& x : v) {
    x = __fmaf_rn(x, sign, __shfl_xor_sync(0xFFFFFFFFu, x, lanes));
  }
}

// The first stage, which also applies the signs. kExact says that the product
// of a value and its sign is not rounded, so that fused operations can multiply
// and add the second value of a pair. (An exact zero becomes +0, because the
// first product of a pair is never -0.)
template <bool kExact>
__device__ __forceinline__ void AddFirstPairs(float (&v)[Quarter::kLength],
                                              const float* signs) {
  const auto* from = reinterpret_cast<const float4*>(signs);
  QUANTD_UNROLL
  for (int i = 0; i < Quarter::kLength / 4; ++i) {
    const float4 s = from[i];
    const auto pair = [](float* x, float first, float second) {
      const float a = __fmaf_rn(x[0], first, 0.0f);
      if constexpr (kExact) {
        const float b = x[1];
        x[0] = __fmaf_rn(b, second, a);
        x[1] = __fmaf_rn(-b, second, a);
      } else {
        const float b = __fmaf_rn(x[1], second, 0.0f);
        x[0] = a + b;
        x[1] = a - b;
      }
    };
    pair(v + 4 * i, s.x, s.y);
    pair(v + 4 * i + 2, s.z, s.w);
  }
}

// RotateForwardOf for a quarter of a line of elements of kBytes. `signs` are
// 128 numbers, repeated for smaller dimensions.
template <int kBytes, int kDimension>
__device__ __forceinline__ void RotateQuarter(float (&v)[Quarter::kLength],
                                              const Quarter& q,
                                              const float* signs) {
  // The scale of dimensions 16 and 64 is a power of two, and 16-bit elements
  // are far from fp32's least numbers.
  constexpr bool kExact = kBytes == 2 && (kDimension == 16 || kDimension == 64);
  AddFirstPairs<kExact>(v, signs + q.first);
  AddPairs(2, v);
  AddPairs(4, v);
  AddPairs(8, v);
  if constexpr (kDimension > 16) AddPairs(16, v);
  if constexpr (kDimension > 32) AddLanes(8, v);
  if constexpr (kDimension > 64) AddLanes(16, v);
}

// Whether any lane's rotated quarter held NaN or Inf. A rotation spreads these
// over the whole block, so checking one of every sixteen values is enough. All
// lanes must call this.
__device__ __forceinline__ bool HadSpecial(const float (&v)[Quarter::kLength]) {
  const float tell[2] = {v[0], v[16]};
  return __any_sync(0xFFFFFFFFu, LargestMagnitude(tell, 0, 2) >= kInfBits);
}

// Stores the warp's sixteen columns of a tile as rows of `lines`.
__device__ __forceinline__ void TransposeColumns(const StagedTile& tile,
                                                 StagedTile* lines) {
  const auto lane = static_cast<int>(threadIdx.x % kWarp);
  const int first = static_cast<int>(Team::warp()) * kBlock;
  const uint32_t from = SharedAddress(tile.bytes) +
                        static_cast<uint32_t>(TileOffset(lane, first));
  const uint32_t to =
      SharedAddress(lines->bytes) +
      static_cast<uint32_t>(TileOffset(first + lane % 8, lane / 8 * 8));
  // Moves eight columns and 32 rows at a time. (Pieces of 16 bytes within each
  // 128 are swizzled by XOR with the row number.)
  QUANTD_UNROLL
  for (uint32_t half = 0; half < 2; ++half) {
    uint32_t x[4][4];
    QUANTD_UNROLL
    for (uint32_t q = 0; q < 4; ++q) {
      LoadFragmentsAt<true>((from ^ half * 16) + q * 32 * 128, x[q]);
    }
    QUANTD_UNROLL
    for (uint32_t q = 0; q < 4; ++q) {
      StoreFragmentsAt((to ^ q % 2 * 64) + q / 2 * kTileBox + half * 8 * 128,
                       x[q]);
    }
  }
  __syncwarp();
}

// Returns the Seen bits of a warp's input lines. Seldom called.
template <int kBytes>
__device__ __noinline__ uint32_t SeenInTile(const StagedTileOf<kBytes>& tile,
                                            bool columns, DType type) {
  const uint32_t base = SharedAddress(tile.bytes);
  uint32_t seen = 0;
  for (int i = static_cast<int>(threadIdx.x % kWarp); i < kBlock * kTileSide;
       i += static_cast<int>(kWarp)) {
    const int line = static_cast<int>(Team::warp()) * kBlock + i % kBlock;
    const int at = i / kBlock;
    const uint32_t from =
        base + static_cast<uint32_t>(columns ? TileOffset<kBytes>(at, line)
                                             : TileOffset<kBytes>(line, at));
    float v;
    if constexpr (kBytes == 4) {
      v = __uint_as_float(LoadShared(from));
    } else {
      const uint32_t bits = LoadShared16(from);
      v = type == DType::kBF16 ? LowOf(bits) : LowOf<DType::kF16>(bits);
    }
    const uint32_t magnitude = MagnitudeOf<Scalar>(v);
    seen |= magnitude > kInfBits ? kSeenNan : 0u;
    seen |= magnitude == kInfBits ? kSeenInf : 0u;
  }
  return seen;
}

// RotateLines for a constant dimension.
template <int kBytes, int kDimension, typename Load>
__device__ __forceinline__ bool RotateLinesBy(const Load& load,
                                              const float* signs,
                                              StagedTile* lines) {
  bool special = false;
#pragma unroll 1
  for (int i = 0; i < 2; ++i) {
    const Quarter q(i);
    float v[Quarter::kLength];
    load(q, v);
    RotateQuarter<kBytes, kDimension>(v, q, signs);
    StoreQuarter(lines, q, v);
    special |= HadSpecial(v);
  }
  __syncwarp();
  return special;
}
// Rotates the warp's lines of elements of kBytes into `lines`. `load` loads a
// quarter of a line. (The source may be in `lines`, as rows of 16-bit
// elements.) Returns whether any lane had NaN or Inf. All lanes must call this.
template <int kBytes, typename Load>
__device__ __forceinline__ bool RotateLines(const Load& load, int dimension,
                                            const float* signs,
                                            StagedTile* lines) {
  // (Code for any dimension would move registers around.)
  switch (dimension) {
    case 16:
      return RotateLinesBy<kBytes, 16>(load, signs, lines);
    case 32:
      return RotateLinesBy<kBytes, 32>(load, signs, lines);
    case 64:
      return RotateLinesBy<kBytes, 64>(load, signs, lines);
    default:
      return RotateLinesBy<kBytes, 128>(load, signs, lines);
  }
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FRAME_ROTATED_LINES_CUH_
