// Conversion instructions and the generic functions for rare cases, for the
// encoders of the frame.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_WORDS_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_WORDS_CUH_

#include "kernels/cuda/encode/frame/cell.cuh"
#include "kernels/cuda/encode/nvfp4/nearest.cuh"

namespace quantd::cuda {

// Sixteen codes in up to four words, in the order of EncodeSixteen.
struct Sixteen {
  uint32_t words[4];
};

// Encodes sixteen values with the generic functions, in cases that are rare or
// not worth tuning.
template <bool kOther>
static __device__ __noinline__ Sixteen EncodeSixteenRare(
    const EncodeParams& p, const float* v, float m, const uint32_t* random) {
  Sixteen codes = {};
  RandomBytes<Scalar> bytes = {};
  if (random != nullptr) {
    for (int i = 0; i < 4; ++i) bytes.words[i] = random[i];
  }
  EncodeSixteen<Scalar, kOther>(p, v, m, random != nullptr ? &bytes : nullptr,
                                codes.words);
  return codes;
}

// Rounds two numbers to a type.
__device__ __forceinline__ void RoundPair(DType type, float* a, float* b) {
  if (type == DType::kBF16) {
    const uint32_t word = PackBf16(*a, *b);
    *a = LowOf(word);
    *b = HighOf(word);
  } else if (type == DType::kF16) {
    uint32_t word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(*b), "f"(*a));
    asm("{ .reg .f16 low, high; mov.b32 {low, high}, %2;"
        " cvt.f32.f16 %0, low; cvt.f32.f16 %1, high; }"
        : "=f"(*a), "=f"(*b)
        : "r"(word));
  }
}

__device__ __forceinline__ float WithSignOf(float magnitude, float v) {
  return __uint_as_float((__float_as_uint(magnitude) & kAbsMask) |
                         (__float_as_uint(v) & ~kAbsMask));
}

// Multiplies two bf16 by `m`, a power of two or NaN in both halves of a word.
// Products that become subnormal are rounded, which does not affect FP8 codes.
__device__ __forceinline__ uint32_t TimesPowerOfTwo(uint32_t word, uint32_t m) {
  uint32_t products;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;"
      : "=r"(products)
      : "r"(word), "r"(m), "r"(0x80008000u));  // -0 keeps the sign of zeros
  return products;
}
// Puts an fp32 that is exact as bf16 into both halves of a word.
__device__ __forceinline__ uint32_t BothHalves(float v) {
  return __byte_perm(__float_as_uint(v), 0, 0x3232);
}

__device__ __forceinline__ Sixteen Fp8Words(DType element,
                                            const float (&y)[kBlock]) {
  Sixteen codes;
  QUANTD_UNROLL
  for (int w = 0; w < 4; ++w) {
    const float* f = y + 4 * w;
    codes.words[w] = element == DType::kE4M3
                         ? CodesOf<DType::kE4M3>(f[0], f[1], f[2], f[3])
                         : CodesOf<DType::kE5M2>(f[0], f[1], f[2], f[3]);
  }
  return codes;
}

// Sixteen codes with signs, from signed values in kE2M1Unit. They must be E2M1
// values unless kConvertsE2M1.
__device__ __forceinline__ Sixteen E2M1Words(const float (&q)[kBlock]) {
  Sixteen codes = {};
  QUANTD_UNROLL
  for (int h = 0; h < 2; ++h) {
    const float* f = q + 8 * h;
    if constexpr (kConvertsE2M1) {
      codes.words[h] = E2M1Of({f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7]});
      continue;
    }
    const uint32_t even = CodesOf<DType::kE4M3>(f[0], f[2], f[4], f[6]);
    const uint32_t odd = CodesOf<DType::kE4M3>(f[1], f[3], f[5], f[7]);
    codes.words[h] = CodesOfBytes(even, odd) | (even >> 4 & 0x08080808u) |
                     (odd & 0x80808080u);
  }
  return codes;
}

// The value for E2M1Words nearest to y, which is in kE2M1Unit, with the sign of
// `sign`.
__device__ __forceinline__ float NearestOf(float y, float sign) {
  if constexpr (kConvertsE2M1) return WithSignOf(y, sign);
  return WithSignOf(NearestE2M1(fminf(fabsf(y), 6.0f * 0x1p-6f)), sign);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_WORDS_CUH_
