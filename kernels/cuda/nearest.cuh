// Rounding to nearest E2M1 by values instead of codes: E2M1 values / 64 are
// E4M3 numbers whose codes, those of subnormals too, are four times E2M1's.
// Packing conversions make codes of them, so that rounding may leave values,
// which errors can be counted from.
#ifndef QUANTD_KERNELS_CUDA_NEAREST_CUH_
#define QUANTD_KERNELS_CUDA_NEAREST_CUH_

#include "kernels/cuda/packed.cuh"

namespace quantd::cuda {

// As LargestOf, without making magnitudes first where the instruction does.
__device__ __forceinline__ uint32_t LargestOfSigned(const Words& x) {
#if __CUDA_ARCH__ >= 860
  uint32_t m[kBlock / 2];
  QUANTD_UNROLL
  for (int i = 0; i < kBlock / 2; ++i) m[i] = x.w[i];
  QUANTD_UNROLL
  for (int n = kBlock / 4; n > 0; n /= 2) {
    QUANTD_UNROLL
    for (int i = 0; i < n; ++i) {
      asm("max.NaN.xorsign.abs.bf16x2 %0, %1, %2;"
          : "=r"(m[i])
          : "r"(m[i]), "r"(m[i + n]));
    }
  }
  return m[0] & 0x7FFF7FFFu;
#else
  return LargestOf(x.w);
#endif
}

// The E2M1 value nearest to y, both / 64; y below 7.
//
// Where w is y: w * 2^22 is an even number of the steps that codes have around
// y, in a binade whose numbers are those steps apart. Taking y off stays there
// (or gets just below it, where nothing is lost): the difference is rounded to
// steps, ties to even, and what is missing in it is y rounded. Below 1.5, where
// w is larger, the steps are those of 1.
__device__ __forceinline__ float NearestE2M1(float y) {
  const float w = fmaxf(y, 0x1.8p-6f);
  const float rest = __fmaf_rn(w, 0x1p22f, -y);
  return __fmaf_rn(w, 0x1p22f, -rest);
}

// E4M3 codes of four such values in the bytes of a word, the first one lowest.
__device__ __forceinline__ uint32_t BytesOf(float a, float b, float c,
                                            float d) {
#if __CUDA_ARCH__ >= 890
  uint32_t word;
  asm("{.reg .b16 low, high;\n"
      "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
      "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
      "mov.b32 %0, {low, high};}"
      : "=r"(word)
      : "f"(a), "f"(b), "f"(c), "f"(d));
  return word;
#else
  return E4M3Of(a) | E4M3Of(b) << 8 | E4M3Of(c) << 16 | E4M3Of(d) << 24;
#endif
}

// Eight E2M1 magnitudes of the bytes of elements 0 2 4 6 and 1 3 5 7.
__device__ __forceinline__ uint32_t CodesOfBytes(uint32_t even, uint32_t odd) {
  return (even >> 2 & 0x07070707u) | (odd << 2 & 0x70707070u);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_NEAREST_CUH_
