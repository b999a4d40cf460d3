// Computes errors of whole, ordinary runs of sixteen from words as they are in
// memory. This takes half of the operations of run.cuh.
#ifndef QUANTD_KERNELS_CUDA_ERRORS_PLAIN_RUNS_CUH_
#define QUANTD_KERNELS_CUDA_ERRORS_PLAIN_RUNS_CUH_

#include <cstdint>

#include "kernels/cuda/decode/codes.cuh"
#include "kernels/cuda/errors/placed_sum.cuh"
#include "kernels/cuda/ptx/half_words.cuh"

namespace quantd::cuda {

// The elements of each word of two that belong to a run: both (kAlong), the low
// one, or the high one.
enum class Half { kAlong, kLow, kHigh };

template <DType D, Half H>
inline constexpr int kRunWords = D != DType::kF32&& H == Half::kAlong ? 8 : 16;

template <Half H>
__device__ __forceinline__ uint32_t WordOf(const uint32_t* words, int i) {
  return words[H == Half::kAlong ? i / 2 : i];
}
template <Half H>
__device__ __forceinline__ bool IsHigh(int i) {
  return H == Half::kHigh || (H == Half::kAlong && i % 2 != 0);
}

// Element i of a run. A word of fp32 is one element.
template <DType D, Half H>
__device__ __forceinline__ float ElementOf(const uint32_t* words, int i) {
  if constexpr (D == DType::kF32) {
    return __uint_as_float(words[i]);
  } else {
    const float2 pair = UnpackPair<D>(WordOf<H>(words, i));
    return IsHigh<H>(i) ? pair.y : pair.x;
  }
}
// The bits of the magnitude of element i, possibly shifted.
template <DType D, Half H>
__device__ __forceinline__ uint32_t MagnitudeOf(const uint32_t* words, int i) {
  if constexpr (D == DType::kF32) {
    return words[i] & kAbsMask;
  } else {
    return WordOf<H>(words, i) & (IsHigh<H>(i) ? 0x7FFF0000u : 0x7FFFu);
  }
}

// The smallest magnitude in the low and in the high halves of words, fp16 or
// bf16. (Magnitudes of either type have the order of their bits.)
template <int N>
__device__ __forceinline__ uint32_t LeastOf(const uint32_t (&words)[N]) {
  uint32_t least[N];
  QUANTD_UNROLL
  for (int i = 0; i < N; ++i) least[i] = words[i];
  QUANTD_UNROLL
  for (int n = 1; n < N; n *= 2) {
    QUANTD_UNROLL
    for (int i = 0; i < N; i += 2 * n) {
      least[i] = MinOfWords(least[i], least[i + n]);
    }
  }
  return least[0];
}
// Whether any element of a run is 0.
template <DType D, Half H, int N>
__device__ __forceinline__ bool HoldsZero(const uint32_t (&words)[N]) {
  if constexpr (D == DType::kF32) {
    float least = __uint_as_float(kInfBits);
    QUANTD_UNROLL
    for (int i = 0; i < N; ++i) {
      least = fminf(least, fabsf(__uint_as_float(words[i])));
    }
    return least == 0.0f;
  } else {
    const uint32_t least = LeastOf(words);
    const bool low = (least & 0x7FFFu) == 0;
    const bool high = (least & 0x7FFF0000u) == 0;
    return H == Half::kLow ? low : H == Half::kHigh ? high : low || high;
  }
}

// Two codes in the low half of a word, as fp16. The result of NaN is undefined.
template <DType E>
__device__ __forceinline__ uint32_t HalvesOf(uint32_t codes) {
  if constexpr (E == DType::kE5M2) {
    return __byte_perm(codes, 0, 0x1404);
  } else {
    uint32_t bits;
#if __CUDA_ARCH__ >= 890
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;"
        : "=r"(bits)
        : "h"(static_cast<uint16_t>(codes)));
#else
    const float2 v = DecodePair<E>(codes);
    bits = PackPair<DType::kF16>(v.x, v.y);
#endif
    return bits;
  }
}
// Decodes sixteen codes to fp16. Drops the signs of E2M1.
template <DType E>
__device__ __forceinline__ void Halves(const uint32_t* words,
                                       uint32_t (&halves)[8]) {
  QUANTD_UNROLL
  for (int i = 0; i < 4; ++i) {
    if constexpr (E == DType::kE2M1x2) {
      const uint32_t eight = words[i / 2] & 0x77777777u;
      if constexpr (kConvertsE2M1) {
        const uint2 four = HalvesOfE2M1(eight >> (16 * (i % 2)));
        halves[2 * i] = four.x;
        halves[2 * i + 1] = four.y;
        continue;
      }
      const uint32_t bytes =
          __byte_perm(0x3E3C3800u, 0x46444240u, eight >> (16 * (i % 2)));
      halves[2 * i] = __byte_perm(bytes, 0, 0x1404);
      halves[2 * i + 1] = __byte_perm(bytes, 0, 0x3424);
    } else {
      halves[2 * i] = HalvesOf<E>(words[i]);
      halves[2 * i + 1] = HalvesOf<E>(words[i] >> 16);
    }
  }
}

// The number of zeros, of either sign, among sixteen E2M1 codes.
__device__ __forceinline__ uint32_t ZerosOf(uint32_t low, uint32_t high) {
  const uint32_t a = (low & 0x77777777u) + 0x77777777u;
  const uint32_t b = (high & 0x77777777u) + 0x77777777u;
  return kRun - static_cast<uint32_t>(
                    __popc((a & 0x88888888u) | (b & 0x88888888u) >> 1));
}

// The number of nonzero values of a run whose codes are zero.
template <DType D, DType E, Half H, int N>
__device__ __forceinline__ uint32_t FlushedOf(const uint32_t (&x)[N],
                                              const uint32_t* words,
                                              const uint32_t (&halves)[8]) {
  if constexpr (E == DType::kE2M1x2) {
    // (Most runs have zero codes, so these are always counted.)
    uint32_t flushed = ZerosOf(words[0], words[1]);
    if (HoldsZero<D, H>(x)) {
      QUANTD_UNROLL
      for (int i = 0; i < kRun; ++i) {
        flushed -= MagnitudeOf<D, H>(x, i) == 0 ? 1u : 0u;
      }
    }
    return flushed;
  } else {
    uint32_t flushed = 0;
    if (HoldsZero<DType::kF16, Half::kAlong>(halves)) {
      QUANTD_UNROLL
      for (int i = 0; i < kRun; ++i) {
        const bool zero =
            MagnitudeOf<DType::kF16, Half::kAlong>(halves, i) == 0;
        flushed += zero && MagnitudeOf<D, H>(x, i) != 0 ? 1u : 0u;
      }
    }
    return flushed;
  }
}

// Multiplies words of two bf16 by a power of two. Copies words of other types.
template <DType D, int N>
__device__ __forceinline__ void ScaleWords(float scale, const uint32_t (&x)[N],
                                           uint32_t (&scaled)[N]) {
  const uint32_t both = __float_as_uint(scale) | __float_as_uint(scale) >> 16;
  QUANTD_UNROLL
  for (int i = 0; i < N; ++i) {
    if constexpr (D == DType::kBF16) {
      asm("fma.rn.bf16x2 %0, %1, %2, %3;"
          : "=r"(scaled[i])
          : "r"(x[i]), "r"(both), "r"(0x80008000u));
    } else {
      scaled[i] = x[i];
    }
  }
}

// Sums of squares of a run's values and errors, and the largest error.
struct PlainSums {
  float signal;
  float noise;
  float error;
};
// Computes the sums of a run in the order of SumOfSquares. kExact says that
// squares of values are exact, so that one fused operation can square and add
// the second value of a pair.
template <bool kExact, typename Value, typename Decoded>
__device__ __forceinline__ PlainSums SumsOf(const Value& value,
                                            const Decoded& decoded,
                                            float factor) {
  float signal[kRun / 2];
  float noise[kRun / 2];
  float error = 0.0f;
  QUANTD_UNROLL
  for (int i = 0; i < kRun / 2; ++i) {
    const float a = value(2 * i);
    const float b = value(2 * i + 1);
    signal[i] = kExact ? __fmaf_rn(b, b, a * a) : a * a + b * b;
    // A value and its decoded code have the same sign.
    const float c = fabsf(a) - fabsf(decoded(2 * i) * factor);
    const float d = fabsf(b) - fabsf(decoded(2 * i + 1) * factor);
    noise[i] = c * c + d * d;
    error = fmaxf(fmaxf(error, fabsf(c)), fabsf(d));
  }
  QUANTD_UNROLL
  for (int n = 1; n < kRun / 2; n *= 2) {
    QUANTD_UNROLL
    for (int i = 0; i < kRun / 2; i += 2 * n) {
      signal[i] = signal[i] + signal[i + n];
      noise[i] = noise[i] + noise[i + n];
    }
  }
  return {signal[0], noise[0], error};
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ERRORS_PLAIN_RUNS_CUH_
