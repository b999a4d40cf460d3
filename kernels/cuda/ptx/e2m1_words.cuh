// Conversions between fp32 and words of eight E2M1 codes by machine
// instructions, which only sm_100a, sm_103a and sm_120a have. They are compiled
// and emulated, but have never run on a GPU.
#ifndef QUANTD_KERNELS_CUDA_PTX_E2M1_WORDS_CUH_
#define QUANTD_KERNELS_CUDA_PTX_E2M1_WORDS_CUH_

#include <cstdint>

namespace quantd::cuda {

// Whether the target of this compilation has the instructions.
#if __CUDA_ARCH_FAMILY_SPECIFIC__ >= 1000
inline constexpr bool kConvertsE2M1 = true;
#else
inline constexpr bool kConvertsE2M1 = false;
#endif
// The unit of values before they are rounded to E2M1
// (kernels/cuda/encode/nvfp4/nearest.cuh).
inline constexpr float kE2M1Unit = kConvertsE2M1 ? 1.0f : 0x1p-6f;

// Rounds eight values to the codes of EncodeE2M1 (kernels/arith/e2m1.h), the
// first in the low nibble.
__device__ __forceinline__ uint32_t E2M1Of(const float (&y)[8]) {
  uint32_t codes;
  asm("{\n\t"
      ".reg .b8 a, b, c, d;\n\t"
      "cvt.rn.satfinite.e2m1x2.f32 a, %2, %1;\n\t"
      "cvt.rn.satfinite.e2m1x2.f32 b, %4, %3;\n\t"
      "cvt.rn.satfinite.e2m1x2.f32 c, %6, %5;\n\t"
      "cvt.rn.satfinite.e2m1x2.f32 d, %8, %7;\n\t"
      "mov.b32 %0, {a, b, c, d};\n\t"
      "}"
      : "=r"(codes)
      : "f"(y[0]), "f"(y[1]), "f"(y[2]), "f"(y[3]), "f"(y[4]), "f"(y[5]),
        "f"(y[6]), "f"(y[7]));
  return codes;
}

// Decodes the four codes in the low half of a word to two words of fp16.
__device__ __forceinline__ uint2 HalvesOfE2M1(uint32_t codes) {
  uint2 halves;
  asm("{\n\t"
      ".reg .b8 a, b;\n\t"
      "mov.b32 {a, b, _, _}, %2;\n\t"
      "cvt.rn.f16x2.e2m1x2 %0, a;\n\t"
      "cvt.rn.f16x2.e2m1x2 %1, b;\n\t"
      "}"
      : "=r"(halves.x), "=r"(halves.y)
      : "r"(codes));
  return halves;
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_PTX_E2M1_WORDS_CUH_
