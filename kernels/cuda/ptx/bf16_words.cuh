// Two neighbouring bf16 as they lie in memory: a word, the first element in its
// low half.
#ifndef QUANTD_KERNELS_CUDA_PTX_BF16_WORDS_CUH_
#define QUANTD_KERNELS_CUDA_PTX_BF16_WORDS_CUH_

#include <cstdint>

namespace quantd::cuda {

// Every fp32 that is a bf16.
__device__ __forceinline__ float LowOf(uint32_t word) {
  return __uint_as_float(word << 16);
}
__device__ __forceinline__ float HighOf(uint32_t word) {
  return __uint_as_float(word & 0xFFFF0000u);
}

// The larger magnitudes, half by half, with signs that mean nothing; NaN, which
// is above Inf as a number, where one is NaN.
__device__ __forceinline__ uint32_t MaxOfWords(uint32_t a, uint32_t b) {
  uint32_t max;
#if __CUDA_ARCH__ >= 860
  asm("max.NaN.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(max) : "r"(a), "r"(b));
#else
  asm("max.NaN.bf16x2 %0, %1, %2;"
      : "=r"(max)
      : "r"(a & 0x7FFF7FFFu), "r"(b & 0x7FFF7FFFu));
#endif
  return max;
}
// The smaller ones, with signs that mean nothing.
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

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_PTX_BF16_WORDS_CUH_
