// Rounds to the nearest E2M1 values, not directly to codes. An E2M1 value / 64
// is an E4M3 number, normal or subnormal, whose code is four times the E2M1
// code. So the instructions that convert to E4M3 find the codes. Errors can be
// computed from the values, too.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_NVFP4_NEAREST_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_NVFP4_NEAREST_CUH_

#include "kernels/cuda/ptx/e2m1_words.cuh"
#include "kernels/cuda/ptx/fp8_words.cuh"
#include "kernels/cuda/tile/packed.cuh"

namespace quantd::cuda {

// LargestOf for words with signs. MaxOfWords ignores the signs.
template <DType D = DType::kBF16>
__device__ __forceinline__ uint32_t LargestOfSigned(const Words& x) {
  uint32_t m[kBlock / 2];
  QUANTD_UNROLL
  for (int i = 0; i < kBlock / 2; ++i) m[i] = x.w[i];
  QUANTD_UNROLL
  for (int n = kBlock / 4; n > 0; n /= 2) {
    QUANTD_UNROLL
    for (int i = 0; i < n; ++i) m[i] = MaxOfWords<D>(m[i], m[i + n]);
  }
  return m[0] & 0x7FFF7FFFu;
}

// The E2M1 value nearest to y, which must be below 7. y and the result are
// passed as values / 64.
//
// Let a step be the distance of E2M1 values around y. If w is y, then w * 2^22
// is a whole number of steps (an even one if y is halfway between two values),
// in a binade in which fp32 numbers are a step apart. The difference w * 2^22 -
// y is in this binade, or so little below it that it is a whole number, too, or
// rounds to one. So it is rounded to steps, ties to even. Subtracting it from w
// * 2^22 gives y, rounded. Below 1.5, w is larger than y, and the step is that
// of 1.
__device__ __forceinline__ float NearestE2M1(float y) {
  const float w = fmaxf(y, 0x1.8p-6f);
  const float rest = __fmaf_rn(w, 0x1p22f, -y);
  return __fmaf_rn(w, 0x1p22f, -rest);
}

// Eight E2M1 codes without signs, from the E4M3 codes of values / 64 for
// elements 0 2 4 6 and 1 3 5 7.
__device__ __forceinline__ uint32_t CodesOfBytes(uint32_t even, uint32_t odd) {
  return (even >> 2 & 0x07070707u) | (odd << 2 & 0x70707070u);
}

// The codes of sixteen elements of type D times m, if kConvertsE2M1. With
// kNegative, -0 gets no sign.
template <DType D, bool kNegative = false>
__device__ __forceinline__ uint2 ConvertedCodes(const Words& x, float m) {
  uint32_t words[2];
  QUANTD_UNROLL
  for (int h = 0; h < 2; ++h) {
    float y[8];
    QUANTD_UNROLL
    for (int i = 0; i < 4; ++i) {
      const uint32_t w = x.w[4 * h + i];
      const uint32_t two = kNegative ? WithoutNegativeZeros<D>(w) : w;
      y[2 * i] = LowOf<D>(two) * m;
      y[2 * i + 1] = HighOf<D>(two) * m;
    }
    words[h] = E2M1Of(y);
  }
  return make_uint2(words[0], words[1]);
}

// The codes of sixteen elements of type D times 64 m. Without kClamped all
// |x * 64 m| must be below 7. With kNegative, -0 gets no sign.
template <DType D, bool kClamped = false, bool kNegative = false>
__device__ __forceinline__ uint2 NearestCodes(const Words& x, float m) {
  if constexpr (kConvertsE2M1) {
    return ConvertedCodes<D, kNegative>(x, m * 64.0f);
  }
  const auto nearest = [&](float v) {
    const float y = fabsf(v) * m;
    return NearestE2M1(kClamped ? fminf(y, 6.0f * 0x1p-6f) : y);
  };
  uint32_t words[2];
  QUANTD_UNROLL
  for (int h = 0; h < 2; ++h) {
    uint32_t w[4];
    float f[8];
    QUANTD_UNROLL
    for (int i = 0; i < 4; ++i) {
      w[i] =
          kNegative ? WithoutNegativeZeros<D>(x.w[4 * h + i]) : x.w[4 * h + i];
      f[2 * i] = nearest(LowOf<D>(w[i]));
      f[2 * i + 1] = nearest(HighOf<D>(w[i]));
    }
    const uint32_t even = CodesOf<DType::kE4M3>(f[0], f[2], f[4], f[6]);
    const uint32_t odd = CodesOf<DType::kE4M3>(f[1], f[3], f[5], f[7]);
    words[h] = Chosen<0x77777777u>(CodesOfBytes(even, odd),
                                   SignsOf(w[0], w[1], w[2], w[3]));
  }
  return make_uint2(words[0], words[1]);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_NVFP4_NEAREST_CUH_
