// Sixteen values under a scale into codes, with the machine's conversions where
// it has them. What these are not for (NaN, Inf, scales at the ends of fp32)
// goes to the generic functions of kernels/arith/encode.h.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_CUH_

#include "kernels/cuda/encode/frame/cell.cuh"
#include "kernels/cuda/encode/nvfp4/nearest.cuh"
#include "kernels/cuda/encode/nvfp4/stochastic.cuh"

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

// v / d, in two steps from an estimate, which give the nearest number as a
// division does; `d` is Safe.
class Quotient {
 public:
  __device__ __forceinline__ explicit Quotient(float d)
      : d_(d), inverse_(1.0f / d) {}
  // Whether no step comes near the ends of fp32, for magnitudes up to `max`.
  // What is so small that the steps lose bits has the code 0.
  static __device__ __forceinline__ bool Safe(float d, uint32_t max) {
    return d >= 0x1p-60f && d <= 0x1p60f && max < 0x5D800000u;  // 2^60
  }
  __device__ __forceinline__ float Of(float v) const {
    float q = v * inverse_;
    QUANTD_UNROLL
    for (int i = 0; i < 2; ++i) {
      q = __fmaf_rn(__fmaf_rn(-q, d_, v), inverse_, q);
    }
    return q;
  }

 private:
  float d_;
  float inverse_;
};

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
  return __uint_as_float(__float_as_uint(magnitude) |
                         (__float_as_uint(v) & 0x80000000u));
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

// `max`: of the values' magnitudes, or more.
__device__ __forceinline__ Sixteen EncodeFp8(const EncodeParams& p,
                                             const EncodeParams& kept,
                                             const float (&v)[kBlock], float m,
                                             uint32_t max) {
  float y[kBlock];
  if (!p.numerics.other) {
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) y[i] = v[i] * m;
    return Fp8Words(p.element, y);
  }
  const Numerics& n = p.numerics;
  const bool times = n.operation == Operation::kTimes;
  if (times ? max >= kInfBits || !(m < 0x1p127f) : !Quotient::Safe(m, max)) {
    float copy[kBlock];
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) copy[i] = v[i];
    return EncodeSixteenRare<true>(kept, copy, m, nullptr);
  }
  if (times) {
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) y[i] = v[i] * m;
  } else {
    const Quotient over(m);
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) {
      y[i] = WithSignOf(fabsf(over.Of(v[i])), v[i]);
    }
  }
  if (n.in_type) {
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; i += 2) RoundPair(p.input, &y[i], &y[i + 1]);
  }
  return Fp8Words(p.element, y);
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

// Codes of an E2M1 cell. `kept` are the parameters as they lie in memory;
// `random` is nullptr for rounding to nearest.
template <typename C>
__device__ __forceinline__ Sixteen EncodeE2M1Values(
    const EncodeParams& p, const EncodeParams& kept, const float (&v)[kBlock],
    float m, uint32_t max, const uint32_t (*random)[4]) {
  bool ordinary;
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
