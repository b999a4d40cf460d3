// Maxima of a lane's values, from which scales are made, and the NaN and Inf
// among them.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FRAME_LARGEST_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FRAME_LARGEST_CUH_

#include "kernels/cuda/encode/frame/cell.cuh"
#include "kernels/cuda/encode/frame/values.cuh"

namespace quantd::cuda {

// Returns the Seen bits of a lane's input values. Seldom called.
template <int kBytes, bool kColumns>
__device__ __noinline__ uint32_t
SeenInHalfLine(LaneValues<kBytes, kColumns> values, DType type) {
  uint32_t seen = 0;
  for (int i = 0; i < kTileSide / 2 / kBlock; ++i) {
    float v[kBlock];
    values.Load(i, type, v);
    for (int k = 0; k < kBlock; ++k) {
      const uint32_t magnitude = MagnitudeOf<Scalar>(v[k]);
      seen |= magnitude > kInfBits ? kSeenNan : 0u;
      seen |= magnitude == kInfBits ? kSeenInf : 0u;
    }
  }
  return seen;
}

// The largest magnitude of a lane's values, or of all values that share a
// scale: `max` with NaN above Inf, `clean` without NaN.
struct Largest {
  uint32_t max = 0;
  uint32_t clean = 0;

  // Adds n values, whose largest magnitude is `m`.
  template <int N>
  __device__ __forceinline__ void Add(const float (&v)[N], int first, int n,
                                      uint32_t m) {
    const uint32_t number = m > kInfBits ? LargestNumber(v, first, n) : m;
    max = m > max ? m : max;
    clean = number > clean ? number : clean;
  }
  // Reduces over lanes whose numbers differ only in the bits from `from` down
  // to `to`.
  __device__ __forceinline__ void Reduce(int from, int to) {
    for (int lanes = from; lanes >= to; lanes /= 2) {
      const uint32_t m = __shfl_xor_sync(0xFFFFFFFFu, max, lanes);
      const uint32_t c = __shfl_xor_sync(0xFFFFFFFFu, clean, lanes);
      max = m > max ? m : max;
      clean = c > clean ? c : clean;
    }
  }
};

// The largest of all of a lane's values. All lanes of a warp must call this.
template <int kBytes, bool kColumns>
__device__ __forceinline__ Largest
LargestOfHalfLine(const LaneValues<kBytes, kColumns>& values, DType type) {
  constexpr int kSixteens = kTileSide / 2 / kBlock;
  Largest largest;
#pragma unroll 2
  for (int i = 0; i < kSixteens; ++i) {
    const uint32_t m = values.FindMax(i, type);
    largest.max = m > largest.max ? m : largest.max;
  }
  largest.clean = largest.max;
  if (!__any_sync(0xFFFFFFFFu, largest.max > kInfBits)) return largest;
  largest = {};
#pragma unroll 1
  for (int i = 0; i < kSixteens; ++i) {
    float v[kBlock];
    const uint32_t m = values.LoadAndFindMax(i, type, v);
    largest.Add(v, 0, kBlock, m);
  }
  return largest;
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FRAME_LARGEST_CUH_
