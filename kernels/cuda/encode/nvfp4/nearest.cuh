// Rounds to the nearest E2M1 values and codes. Without kConvertsE2M1 it rounds
// to values first. An E2M1 value / 64 is an E4M3 number, normal or subnormal,
// whose code is four times the E2M1 code. So the instructions that convert to
// E4M3 find the codes. Errors can be computed from the values, too.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_NVFP4_NEAREST_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_NVFP4_NEAREST_CUH_

#include "kernels/cuda/ptx/e2m1_words.cuh"
#include "kernels/cuda/ptx/float_pairs.cuh"
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

// Eight elements, rounded. With kConvertsE2M1 `even` is all codes with their
// signs, and `odd` is not used. Otherwise these are operands of CodesOfBytes.
struct EightCodes {
  uint32_t even;
  uint32_t odd;

  // The codes with the signs of the elements, which are in four words.
  __device__ __forceinline__ uint32_t WithSignsOf(const uint32_t* w) const {
    if constexpr (kConvertsE2M1) return even;
    return Chosen<0x77777777u>(CodesOfBytes(even, odd),
                               SignsOf(w[0], w[1], w[2], w[3]));
  }
};
// Sets q to the E2M1 values nearest to y, in kE2M1Unit. y must be below 7 and,
// without kConvertsE2M1, at least 0.
__device__ __forceinline__ EightCodes RoundEight(const float (&y)[8],
                                                 float (&q)[8]) {
  if constexpr (kConvertsE2M1) {
    const uint32_t codes = E2M1Of(y);
    QUANTD_UNROLL
    for (int i = 0; i < 8; i += 4) {
      const uint2 four = HalvesOfE2M1(codes >> (4 * i));
      q[i] = LowOf<DType::kF16>(four.x);
      q[i + 1] = HighOf<DType::kF16>(four.x);
      q[i + 2] = LowOf<DType::kF16>(four.y);
      q[i + 3] = HighOf<DType::kF16>(four.y);
    }
    return {codes, 0};
  } else {
    QUANTD_UNROLL
    for (int i = 0; i < 8; ++i) q[i] = NearestE2M1(y[i]);
    return {CodesOf<DType::kE4M3>(q[0], q[2], q[4], q[6]),
            CodesOf<DType::kE4M3>(q[1], q[3], q[5], q[7])};
  }
}

// The codes of sixteen elements of type D times m, which is in kE2M1Unit.
// Without kClamped and kConvertsE2M1 all products must be below 7. With
// kNegative, -0 gets no sign.
template <DType D, bool kClamped = false, bool kNegative = false>
__device__ __forceinline__ uint2 NearestCodes(const Words& x, float m) {
  uint32_t words[2];
  QUANTD_UNROLL
  for (int h = 0; h < 2; ++h) {
    uint32_t w[4];
    float y[8];
    QUANTD_UNROLL
    for (int i = 0; i < 4; ++i) {
      w[i] =
          kNegative ? WithoutNegativeZeros<D>(x.w[4 * h + i]) : x.w[4 * h + i];
      y[2 * i] = LowOf<D>(w[i]);
      y[2 * i + 1] = HighOf<D>(w[i]);
    }
    MultiplyBy(m, y);
    if constexpr (!kConvertsE2M1) {
      QUANTD_UNROLL
      for (int i = 0; i < 8; ++i) {
        y[i] = kClamped ? fminf(fabsf(y[i]), 6.0f * kE2M1Unit) : fabsf(y[i]);
      }
    }
    float q[8];
    words[h] = RoundEight(y, q).WithSignsOf(w);
  }
  return make_uint2(words[0], words[1]);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_NVFP4_NEAREST_CUH_
