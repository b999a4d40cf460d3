// Sixteen values under a scale into codes, with the machine's conversions where
// it has them. What these are not for (NaN, Inf, scales at the ends of fp32)
// goes to the generic functions of kernels/arith/encode.h.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_CUH_

#include "kernels/cuda/encode/frame/cell.cuh"
#include "kernels/cuda/encode/nvfp4/nearest.cuh"
#include "kernels/cuda/encode/nvfp4/stochastic.cuh"
#include "kernels/cuda/tile/quotient.cuh"

namespace quantd::cuda {

// Up to four words, as EncodeSixteen has them.
struct Sixteen {
  uint32_t words[4];
};

// For what is rare, or not worth more.
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

// Two numbers rounded to a type.
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

// --- FP8 --------------------------------------------------------------------

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

// Where y lies among the numbers at which codes change, those of subnormals
// too: multiples of a sixteenth of its power of two, or none.
__device__ __forceinline__ uint32_t PlaceAmongCodes(float y) {
  const uint32_t bits = __float_as_uint(y);
  return bits >> 19 << 1 | ((bits & 0x7FFFFu) != 0 ? 1u : 0u);
}

// A number that bf16 can be multiplied with instead of being divided by `d`,
// for the same codes; 0: there is none beside 1 / d, or they are no bf16. All
// lanes of the warp must call this with the same d, which is Safe.
__device__ __forceinline__ float Fp8Multiplier(const EncodeParams& p, float d) {
  if (p.input != DType::kBF16) return 0.0f;
  // Powers of two change nothing but the exponent: a lane takes 4 of 128.
  const Quotient over(d);
  const uint32_t nearest = __float_as_uint(1.0f / d);
  constexpr int kBeside[] = {0, 1, -1};
  bool good[3] = {true, true, true};
  QUANTD_UNROLL
  for (uint32_t k = 0; k < 4; ++k) {
    const float v =
        __uint_as_float((127u << 7 | threadIdx.x % kWarp * 4 | k) << 16);
    const float wanted = over.Of(v);
    QUANTD_UNROLL
    for (int i = 0; i < 3; ++i) {
      const float y =
          v * __uint_as_float(nearest + static_cast<uint32_t>(kBeside[i]));
      good[i] =
          good[i] &&
          (p.numerics.in_type ? PackBf16(y, 0.0f) == PackBf16(wanted, 0.0f)
                              : PlaceAmongCodes(y) == PlaceAmongCodes(wanted));
    }
  }
  float m = 0.0f;
  QUANTD_UNROLL
  for (int i = 2; i >= 0; --i) {
    if (!__all_sync(0xFFFFFFFFu, good[i])) continue;
    m = __uint_as_float(nearest + static_cast<uint32_t>(kBeside[i]));
  }
  return m;
}

// Other libraries' codes. `max`: of the values' magnitudes, or more.
// `multiplier`: what Fp8Multiplier gave for the operand `m`, or 0.
__device__ __forceinline__ Sixteen EncodeOtherFp8(const EncodeParams& p,
                                                  const EncodeParams& kept,
                                                  const float (&v)[kBlock],
                                                  float m, float multiplier,
                                                  uint32_t max) {
  const Numerics& n = p.numerics;
  const bool times = n.operation == Operation::kTimes;
  if (times ? max >= kInfBits || !(m < 0x1p127f) : !Quotient::Safe(m, max)) {
    float copy[kBlock];
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) copy[i] = v[i];
    return EncodeSixteenRare<true>(kept, copy, m, nullptr);
  }
  float y[kBlock];
  if (times || multiplier != 0.0f) {
    const float by = times ? m : multiplier;
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) y[i] = v[i] * by;
  } else {
    const Quotient over(m);
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) y[i] = WithSignOf(over.Of(v[i]), v[i]);
  }
  if (n.in_type) {
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; i += 2) RoundPair(p.input, &y[i], &y[i + 1]);
  }
  return Fp8Words(p.element, y);
}

template <typename C>
__device__ __forceinline__ Sixteen EncodeFp8(const EncodeParams& p,
                                             const EncodeParams& kept,
                                             const float (&v)[kBlock], float m,
                                             float multiplier, uint32_t max) {
  if constexpr (C::kOther) {
    return EncodeOtherFp8(p, kept, v, m, multiplier, max);
  } else {
    float y[kBlock];
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) y[i] = v[i] * m;
    return Fp8Words(p.element, y);
  }
}

// --- E2M1 -------------------------------------------------------------------

// Sixteen codes with signs from E2M1 values / 64 with signs.
__device__ __forceinline__ Sixteen E2M1Words(const float (&q)[kBlock]) {
  Sixteen codes = {};
  QUANTD_UNROLL
  for (int h = 0; h < 2; ++h) {
    const float* f = q + 8 * h;
    const uint32_t even = CodesOf<DType::kE4M3>(f[0], f[2], f[4], f[6]);
    const uint32_t odd = CodesOf<DType::kE4M3>(f[1], f[3], f[5], f[7]);
    codes.words[h] = CodesOfBytes(even, odd) | (even >> 4 & 0x08080808u) |
                     (odd & 0x80808080u);
  }
  return codes;
}

// Whether a multiplier is far from the ends of fp32 and no value is special.
__device__ __forceinline__ bool IsOrdinary(float m, uint32_t max) {
  constexpr uint32_t kLeast = 27u << 23;  // 2^-100
  return __float_as_uint(m) - kLeast <= kFltMaxBits - kLeast && max < kInfBits;
}

// y to nearest, all |y| brought to 6 at most.
__device__ __forceinline__ float NearestOf(float y64, float sign) {
  return WithSignOf(NearestE2M1(fminf(fabsf(y64), 6.0f * 0x1p-6f)), sign);
}

__device__ __forceinline__ Sixteen NearestCodes(const float (&v)[kBlock],
                                                float m) {
#if __CUDA_ARCH__ >= 890
  const float m64 = m * 0x1p-6f;
  float q[kBlock];
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) q[i] = NearestOf(v[i] * m64, v[i]);
  return E2M1Words(q);
#else
  return {{PackE2M1<Scalar, E2M1Input::kAny>(v, m),
           PackE2M1<Scalar, E2M1Input::kAny>(v + 8, m), 0, 0}};
#endif
}

// Byte i of `random` is value i's.
__device__ __forceinline__ Sixteen StochasticCodesOf(
    const float (&v)[kBlock], float m, const uint32_t (&random)[4]) {
  Sixteen codes = {};
  QUANTD_UNROLL
  for (int h = 0; h < 2; ++h) {
    const float* f = v + 8 * h;
    const auto least = [&](int i) { return fminf(fabsf(f[i] * m), 6.0f); };
    // Of elements 0 and 2, then 4 and 6; of 1 and 3, then 5 and 7.
    uint32_t even[2];
    uint32_t odd[2];
    uint32_t signs[4];
    QUANTD_UNROLL
    for (int i = 0; i < 2; ++i) {
      const uint32_t bytes = random[2 * h + i];
      even[i] = TwiceAnd(bytes & 0x00FF00FFu,
                         FractionalCodes(least(4 * i), least(4 * i + 2)));
      odd[i] = TwiceAnd(__byte_perm(bytes, 0, 0x4341),
                        FractionalCodes(least(4 * i + 1), least(4 * i + 3)));
      // Values near 6 may have come to an eighth code.
      even[i] = __vminu2(even[i], 0x0FFF0FFFu);
      odd[i] = __vminu2(odd[i], 0x0FFF0FFFu);
    }
    QUANTD_UNROLL
    for (int i = 0; i < 4; ++i) {
      signs[i] = Scalar::JoinHighHalves(__float_as_uint(f[2 * i]),
                                        __float_as_uint(f[2 * i + 1]));
    }
    const uint32_t evens = __byte_perm(even[0], even[1], 0x7531) >> 1;
    const uint32_t odds = __byte_perm(odd[0], odd[1], 0x7531) << 3;
    codes.words[h] =
        (((evens & 0x0F0F0F0Fu) | (odds & 0xF0F0F0F0u)) & 0x77777777u) |
        (SignsOf(signs[0], signs[1], signs[2], signs[3]) & 0x88888888u);
  }
  return codes;
}

// Whether OtherCodes gives what the generic functions do.
__device__ __forceinline__ bool IsOrdinaryForOthers(const Numerics& n,
                                                    const float (&v)[kBlock],
                                                    float d, uint32_t max) {
  if (n.ties_to_zero || !Quotient::Safe(d, max)) return false;
  if (n.sign == SignRule::kSignBit || d <= 0.5f) return true;
  // A quotient that is 0 has another sign than the smallest number.
  float least = 1.0f;
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) {
    least = v[i] == 0.0f ? least : fminf(least, fabsf(v[i]));
  }
  return least >= 0x1p-60f;
}

// Other libraries' codes of values over, or times, an operand.
__device__ __forceinline__ Sixteen OtherCodes(const EncodeParams& p,
                                              const float (&v)[kBlock],
                                              float d) {
  const Numerics& n = p.numerics;
  float q[kBlock];
  if (n.operation == Operation::kTimes) {
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) q[i] = v[i] * d;
  } else {
    const Quotient over(d);
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) q[i] = over.Of(v[i]);
  }
  if (n.in_type) {
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; i += 2) RoundPair(p.input, &q[i], &q[i + 1]);
  }
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) {
    // Which elements get a sign: see SignRule.
    float sign = v[i];
    if (n.sign == SignRule::kNegative) sign = fminf(q[i], 0.0f) + 0.0f;
    if (n.sign == SignRule::kNotPositive) sign = q[i] > 0.0f ? 0.0f : -1.0f;
    q[i] = NearestOf(q[i] * 0x1p-6f, sign);
  }
  return E2M1Words(q);
}

// The same in MX, where the operand is a power of two, from 1 on: nothing is
// rounded, nor is anything lost for signs.
__device__ __forceinline__ bool IsOrdinaryForOtherMx(const EncodeParams& p,
                                                     float m, uint32_t max) {
  // (Of fp32 the number next to a tie is taken for one.)
  const bool ties = !p.numerics.ties_to_zero || p.input != DType::kF32;
  return ties && m >= 1.0f && m < 0x1p127f && max < kInfBits;
}
__device__ __forceinline__ Sixteen OtherMxCodes(const EncodeParams& p,
                                                const float (&v)[kBlock],
                                                float m) {
  const Numerics& n = p.numerics;
  // What lies on a tie gets just below it.
  const float m64 = m * (n.ties_to_zero ? 0x1.FFFFFEp-7f : 0x1p-6f);
  // Which elements get a sign: -0 stays or becomes 0, whose bits less 1 have
  // one again.
  float q[kBlock];
  if (n.sign == SignRule::kSignBit) {
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) q[i] = NearestOf(v[i] * m64, v[i]);
  } else {
    const uint32_t less = n.sign == SignRule::kNotPositive ? 1 : 0;
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) {
      const float sign =
          __uint_as_float(__float_as_uint(__fadd_rn(v[i], 0.0f)) - less);
      q[i] = NearestOf(v[i] * m64, sign);
    }
  }
  return E2M1Words(q);
}

// Codes of an E2M1 cell. `kept` are the parameters as they lie in memory;
// `random` is nullptr for rounding to nearest.
template <typename C>
__device__ __forceinline__ Sixteen EncodeE2M1Values(
    const EncodeParams& p, const EncodeParams& kept, const float (&v)[kBlock],
    float m, uint32_t max, const uint32_t (*random)[4]) {
  bool ordinary;
  if constexpr (C::kOther && C::kMx) {
    if (IsOrdinaryForOtherMx(p, m, max)) return OtherMxCodes(p, v, m);
  }
  if constexpr (C::kOther) {
    ordinary = IsOrdinaryForOthers(p.numerics, v, m, max);
  } else {
    ordinary = IsOrdinary(m, max);
  }
  if (!ordinary) {
    float copy[kBlock];
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) copy[i] = v[i];
    return EncodeSixteenRare<C::kOther>(kept, copy, m,
                                        random != nullptr ? *random : nullptr);
  }
  if constexpr (C::kOther) return OtherCodes(p, v, m);
  return random != nullptr ? StochasticCodesOf(v, m, *random)
                           : NearestCodes(v, m);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_CUH_
