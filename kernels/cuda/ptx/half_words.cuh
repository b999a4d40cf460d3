// Two neighbouring bf16 or fp16 in a word, as in memory: the first element is
// in the low half.
#ifndef QUANTD_KERNELS_CUDA_PTX_HALF_WORDS_CUH_
#define QUANTD_KERNELS_CUDA_PTX_HALF_WORDS_CUH_

#include <cstdint>

#include "quantd/format.h"

namespace quantd::cuda {

// The element in the low or high half as fp32, exactly.
template <DType D = DType::kBF16>
__device__ __forceinline__ float LowOf(uint32_t word) {
  if constexpr (D == DType::kBF16) return __uint_as_float(word << 16);
  float low;
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, l; }"
      : "=f"(low)
      : "r"(word));
  return low;
}
template <DType D = DType::kBF16>
__device__ __forceinline__ float HighOf(uint32_t word) {
  if constexpr (D == DType::kBF16) return __uint_as_float(word & 0xFFFF0000u);
  float high;
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, h; }"
      : "=f"(high)
      : "r"(word));
  return high;
}

// The larger magnitude in each half, with an arbitrary sign. NaN if either
// element is NaN.
template <DType D = DType::kBF16>
__device__ __forceinline__ uint32_t MaxOfWords(uint32_t a, uint32_t b) {
  uint32_t max;
#if __CUDA_ARCH__ >= 860
  if constexpr (D == DType::kBF16) {
    asm("max.NaN.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(max) : "r"(a), "r"(b));
  } else {
    asm("max.NaN.xorsign.abs.f16x2 %0, %1, %2;" : "=r"(max) : "r"(a), "r"(b));
  }
#else
  a &= 0x7FFF7FFFu;
  b &= 0x7FFF7FFFu;
  if constexpr (D == DType::kBF16) {
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(max) : "r"(a), "r"(b));
  } else {
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(max) : "r"(a), "r"(b));
  }
#endif
  return max;
}
// The smaller magnitude of bf16 in each half, with an arbitrary sign.
__device__ __forceinline__ uint32_t MinOfWords(uint32_t a, uint32_t b) {
  uint32_t min;
#if __CUDA_ARCH__ >= 860
  asm("min.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(min) : "r"(a), "r"(b));
#else
  asm("min.bf16x2 %0, %1, %2;"
      : "=r"(min)
      : "r"(a & 0x7FFF7FFFu), "r"(b & 0x7FFF7FFFu));
#endif
  return min;
}

// Replaces -0 by 0. NaN becomes a NaN with any bits.
template <DType D>
__device__ __forceinline__ uint32_t WithoutNegativeZeros(uint32_t word) {
  uint32_t clean;
  if constexpr (D == DType::kBF16) {
    asm("fma.rn.bf16x2 %0, %1, %2, %3;"
        : "=r"(clean)
        : "r"(word), "r"(0x3F803F80u), "r"(0u));
  } else {
    asm("fma.rn.f16x2 %0, %1, %2, %3;"
        : "=r"(clean)
        : "r"(word), "r"(0x3C003C00u), "r"(0u));
  }
  return clean;
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_PTX_HALF_WORDS_CUH_
