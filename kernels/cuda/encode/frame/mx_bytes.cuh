// Encodes rows of MXFP8, one block at a time. A block is read once for its
// scale and again for its codes, because registers are scarcer than shared
// memory.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FRAME_MX_BYTES_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FRAME_MX_BYTES_CUH_

#include "kernels/cuda/encode/frame/lines.cuh"
#include "kernels/cuda/encode/frame/values.cuh"

namespace quantd::cuda {

// The codes of the i-th sixteen of a lane's values. `m` is the multiplier of an
// E8M0 scale.
template <DType E, int kBytes>
__device__ __forceinline__ Sixteen
MxBytesOf(const LaneValues<kBytes, false>& values, int i, DType type, float m) {
  Sixteen codes;
  if constexpr (kBytes == 2) {
    if (type == DType::kBF16) {
      const Words x = values.Take(i);
      const uint32_t both = BothHalves(m);
      QUANTD_UNROLL
      for (int w = 0; w < 4; ++w) {
        const uint32_t a = TimesPowerOfTwo(x.w[2 * w], both);
        const uint32_t b = TimesPowerOfTwo(x.w[2 * w + 1], both);
        codes.words[w] = CodesOf<E>(LowOf(a), HighOf(a), LowOf(b), HighOf(b));
      }
      return codes;
    }
  }
  float v[kBlock];
  values.Load(i, type, v);
  QUANTD_UNROLL
  for (int w = 0; w < 4; ++w) {
    codes.words[w] = CodesOf<E>(v[4 * w] * m, v[4 * w + 1] * m,
                                v[4 * w + 2] * m, v[4 * w + 3] * m);
  }
  return codes;
}

// The largest magnitude, without NaN, of the block of 32 that begins with
// sixteen i. Seldom called.
template <int kBytes>
__device__ __forceinline__ uint32_t
LargestNumberOf(const LaneValues<kBytes, false>& values, int i, DType type) {
  uint32_t max = 0;
#pragma unroll 1
  for (int j = 0; j < 2; ++j) {
    float v[kBlock];
    values.Load(i + j, type, v);
    const uint32_t m = LargestNumber(v, 0, kBlock);
    max = m > max ? m : max;
  }
  return max;
}

// The position of a warp's rows of a tile in their copy.
struct MxRows {
  int lines;  // lines in the tile; at least one
  int64_t first;
  int64_t position;
};

// Encodes the rows. Returns whether any lane has NaN or Inf. All lanes must
// call this.
template <typename C, int kBytes>
__device__ __forceinline__ bool EncodeMxBytes(
    const EncodeParams& p, const CopyTask& copy, const LineTask& task,
    const MxRows& at, const LaneValues<kBytes, false>& values, DType type,
    const LineBytes& bytes) {
  const bool whole = at.lines >= kBlock &&
                     at.position + kTileSide <= copy.padded &&
                     task.is(LineTask::kAlignedCodes);
  uint32_t scales = 0;
  uint32_t seen_max = 0;
#pragma unroll 1
  for (int b = 0; b < 2; ++b) {
    const uint32_t first = values.FindMax(2 * b, type);
    const uint32_t second = values.FindMax(2 * b + 1, type);
    const uint32_t max = second > first ? second : first;
    const uint32_t clean =
        max > kInfBits ? LargestNumberOf(values, 2 * b, type) : max;
    seen_max = max > seen_max ? max : seen_max;
    const BlockScale<Scalar> scale = C::ScaleOf(p, {}, max, clean);
    scales |= scale.stored << (8 * b);
    const auto encode = [&](auto coder) {
      QUANTD_UNROLL
      for (int j = 0; j < 2; ++j) {
        bytes.Set(static_cast<uint32_t>(j), coder(2 * b + j));
      }
    };
    if (p.element == DType::kE4M3) {
      encode([&](int i) {
        return MxBytesOf<DType::kE4M3>(values, i, type, scale.m);
      });
    } else {
      encode([&](int i) {
        return MxBytesOf<DType::kE5M2>(values, i, type, scale.m);
      });
    }
    bytes.Store(p, copy, whole, at.first, at.position, b);
  }
  StoreByteScales<C::kLength>(copy, task, at.first, at.position, at.lines,
                              WordOfScales<C::kLength>(scales));
  return __any_sync(0xFFFFFFFFu, seen_max >= kInfBits);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FRAME_MX_BYTES_CUH_
