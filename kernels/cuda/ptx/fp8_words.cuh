// Converts bf16 and fp16 elements to FP8 codes by machine instructions, with
// the same bytes as kernels/arith/codec.h. A word holds two neighbouring
// elements.
#ifndef QUANTD_KERNELS_CUDA_PTX_FP8_WORDS_CUH_
#define QUANTD_KERNELS_CUDA_PTX_FP8_WORDS_CUH_

#include <cstdint>

#include "kernels/arith/codec.h"
#include "kernels/cuda/ptx/half_words.cuh"
#include "quantd/format.h"

namespace quantd::cuda {

// Whether either element is NaN or Inf.
template <DType D>
__device__ __forceinline__ bool HoldsSpecial(uint32_t word) {
  constexpr uint32_t kInf = D == DType::kBF16 ? 0x7F80 : 0x7C00;
  return (word & 0x7FFFu) >= kInf || (word & 0x7FFF0000u) >= kInf << 16;
}

// The magnitude of the low or the high element as fp32 bits.
template <DType D>
__device__ __forceinline__ uint32_t LowMagnitude(uint32_t word) {
  return __float_as_uint(LowOf<D>(word)) & kAbsMask;
}
template <DType D>
__device__ __forceinline__ uint32_t HighMagnitude(uint32_t word) {
  return __float_as_uint(HighOf<D>(word)) & kAbsMask;
}

// Converts to four codes, the first in the low byte. NaN becomes 0x7F. Inf
// saturates.
template <DType E>
__device__ __forceinline__ uint32_t CodesOf(float a, float b, float c,
                                            float d) {
#if __CUDA_ARCH__ >= 890
  uint32_t word;
  if constexpr (E == DType::kE4M3) {
    asm("{\n\t"
        ".reg .b16 low, high;\n\t"
        "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n\t"
        "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n\t"
        "mov.b32 %0, {low, high};\n\t"
        "}"
        : "=r"(word)
        : "f"(a), "f"(b), "f"(c), "f"(d));
  } else {
    asm("{\n\t"
        ".reg .b16 low, high;\n\t"
        "cvt.rn.satfinite.e5m2x2.f32 low, %2, %1;\n\t"
        "cvt.rn.satfinite.e5m2x2.f32 high, %4, %3;\n\t"
        "mov.b32 %0, {low, high};\n\t"
        "}"
        : "=r"(word)
        : "f"(a), "f"(b), "f"(c), "f"(d));
  }
  return word;
#else
  const float v[4] = {a, b, c, d};
  uint32_t word = 0;
  QUANTD_UNROLL
  for (int i = 0; i < 4; ++i) {
    word |= (E == DType::kE4M3 ? EncodeE4M3<Scalar>(v[i])
                               : EncodeE5M2<Scalar>(v[i]))
            << (8 * i);
  }
  return word;
#endif
}

// Stores to global memory. For an address from a table the compiler would use
// generic stores, and after each one it would load the table again. The kernel
// must not read the stored data back.
__device__ __forceinline__ void StoreGlobal(uint32_t v, void* to) {
  asm volatile("st.global.b32 [%0], %1;" ::"l"(to), "r"(v));
}
__device__ __forceinline__ void StoreGlobal(uint2 v, void* to) {
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(v.x),
               "r"(v.y));
}
__device__ __forceinline__ void StoreGlobal(uint4 v, void* to) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x),
               "r"(v.y), "r"(v.z), "r"(v.w));
}

// Stores `v` if `wanted`, without a branch, in two halves aligned to 8 bytes.
__device__ __forceinline__ void StoreGlobalIf(bool wanted, float4 v,
                                              float* to) {
  asm volatile(
      "{\n\t"
      ".reg .pred wanted;\n\t"
      "setp.ne.b32 wanted, %5, 0;\n\t"
      "@wanted st.global.v2.f32 [%0], {%1, %2};\n\t"
      "@wanted st.global.v2.f32 [%0 + 8], {%3, %4};\n\t"
      "}" ::"l"(to),
      "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(wanted ? 1 : 0));
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_PTX_FP8_WORDS_CUH_
