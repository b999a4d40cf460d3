// Codes for profiles other than TE, which multiply values by an operand or
// divide them by it. Some profiles round the result to the input's type before
// they round it to a code, and some change the signs of zeros.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_OTHERS_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_OTHERS_CUH_

#include "kernels/cuda/encode/frame/codes/words.cuh"
#include "kernels/cuda/tile/quotient.cuh"

namespace quantd::cuda {

// --- FP8 --------------------------------------------------------------------

// Searches for a multiplier that can replace dividing by d and gives the same
// FP8 codes for all numbers of the input's type. d must be Safe. Codes change
// at thresholds t, and the product of v and a number near 1 / d is within a few
// last places of v / d. So only numbers of the type within a few last places of
// t * d need a check: the product must be on the same side of t as the
// quotient.
class Inverse {
 public:
  static constexpr uint32_t kAll = 7;  // all candidates, one bit each

  __device__ __forceinline__ Inverse(const EncodeParams& p, float d)
      : type_(p.input),
        rounds_(p.numerics.in_type),
        d_(d),
        over_(d),
        nearest_(1.0f / d) {}

  // Whether the search works. It does not work for fp32, which has numbers near
  // every threshold, or for fp16 quotients that lose bits at the ends of the
  // range.
  static __device__ __forceinline__ bool Applies(const EncodeParams& p) {
    return p.input == DType::kBF16 ||
           (p.input == DType::kF16 &&
            !(p.numerics.in_type && p.element == DType::kE5M2));
  }
  __device__ __forceinline__ float candidate(uint32_t i) const {
    const uint32_t nearest = __float_as_uint(nearest_);
    return __uint_as_float(i == 2 ? nearest - 1 : nearest + i);
  }

  // Threshold k of 32, divided by a power of two. It is a multiple of 1/16 or,
  // if quotients are rounded to the type first, half a last place of the type
  // above or below a multiple.
  __device__ __forceinline__ float Threshold(uint32_t k) const {
    const float t = 1.0f + static_cast<float>(k % 16) * 0x1p-4f;
    if (!rounds_) return t;
    const float half = type_ == DType::kBF16 ? 0x1p-8f : 0x1p-11f;
    return k < 16 ? t + half : t - (k == 16 ? half * 0.5f : half);
  }
  __device__ __forceinline__ bool IsNear(float t) const {
    const uint32_t beyond = type_ == DType::kBF16 ? 0xFFFFu : 0x1FFFu;
    return ((__float_as_uint(t * d_) + 8u) & beyond) <= 16u;
  }
  // The candidates that are correct for numbers near t * d.
  __device__ __forceinline__ uint32_t GoodNear(float t) const {
    float v = t * d_;
    float none = 0.0f;
    RoundPair(type_, &v, &none);
    const float wanted = over_.Of(v);
    uint32_t good = 0;
    QUANTD_UNROLL
    for (uint32_t i = 0; i < 3; ++i) {
      const float y = v * candidate(i);
      good |= (y < t) == (wanted < t) && (y > t) == (wanted > t) ? 1u << i : 0;
    }
    return good;
  }

 private:
  const DType type_;
  const bool rounds_;
  const float d_;
  const Quotient over_;
  const float nearest_;
};

// The candidates that are correct at all thresholds. Each lane checks one
// threshold.
__device__ __forceinline__ uint32_t GoodForAll(const Inverse& inverse) {
  const float t = inverse.Threshold(threadIdx.x % kWarp);
  const uint32_t good = inverse.IsNear(t) ? inverse.GoodNear(t) : Inverse::kAll;
  uint32_t all = 0;
  QUANTD_UNROLL
  for (uint32_t i = 0; i < 3; ++i) {
    if (__all_sync(0xFFFFFFFFu, (good >> i & 1) != 0)) all |= 1u << i;
  }
  return all;
}
// How FP8 codes are computed with an operand.
struct OtherFp8 {
  float m = 0.0f;      // the operand
  float by = 0.0f;     // multiplier; 0: values are divided by the operand
  uint32_t limit = 0;  // magnitudes from here on need the generic functions
};

__device__ __forceinline__ OtherFp8 HowToFp8(const EncodeParams& p, float m) {
  if (p.numerics.operation == Operation::kTimes) {
    return {m, m, m < 0x1p127f ? kInfBits : 0u};
  }
  return {m, 0.0f, Quotient::Safe(m, 0) ? Quotient::kEnd : 0u};
}
// HowToFp8 for many values of all lanes with the same operand. Searches for a
// multiplier that can replace dividing. All lanes must call this.
__device__ __forceinline__ OtherFp8 HowToManyFp8(const EncodeParams& p,
                                                 float m) {
  OtherFp8 how = HowToFp8(p, m);
  if (how.by != 0.0f || how.limit == 0 || !Inverse::Applies(p)) return how;
  const Inverse inverse(p, m);
  const uint32_t good = GoodForAll(inverse);
  if (good != 0) how.by = inverse.candidate(good & 1 ? 0 : good & 2 ? 1 : 2);
  return how;
}

// Encodes sixteen values. `max` is an upper bound of their magnitudes.
__device__ __forceinline__ Sixteen EncodeOtherFp8(const EncodeParams& p,
                                                  const EncodeParams& kept,
                                                  const float (&v)[kBlock],
                                                  const OtherFp8& how,
                                                  uint32_t max) {
  if (max >= how.limit) {
    float copy[kBlock];
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) copy[i] = v[i];
    return EncodeSixteenRare<true>(kept, copy, how.m, nullptr);
  }
  float y[kBlock];
  if (how.by != 0.0f) {
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) y[i] = v[i] * how.by;
  } else {
    const Quotient over(how.m);
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) y[i] = WithSignOf(over.Of(v[i]), v[i]);
  }
  if (p.numerics.in_type) {
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; i += 2) RoundPair(p.input, &y[i], &y[i + 1]);
  }
  return Fp8Words(p.element, y);
}

// --- E2M1 -------------------------------------------------------------------

// Codes of values times m, which is in kE2M1Unit. Only zeros may become zero.
// The addition of a zero gives the signs of SignRule without further
// operations: it makes zeros positive or keeps their signs.
__device__ __forceinline__ Sixteen CodesOfProducts(SignRule sign,
                                                   const float (&v)[kBlock],
                                                   float m) {
  // If zeros must be negative, all signs are inverted before and after.
  const bool turned = sign == SignRule::kNotPositive;
  const float by = turned ? -m : m;
  const float zero = sign == SignRule::kSignBit ? -0.0f : 0.0f;
  float q[kBlock];
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) {
    const float y = __fmaf_rn(v[i], by, zero);
    q[i] = NearestOf(y, y);
  }
  Sixteen codes = E2M1Words(q);
  const uint32_t turn = turned ? 0x88888888u : 0u;
  codes.words[0] ^= turn;
  codes.words[1] ^= turn;
  return codes;
}

// Whether CodesOfProducts gives the codes of NVFP4 with multiplier m.
__device__ __forceinline__ bool AreProducts(const EncodeParams& p, float m,
                                            uint32_t max) {
  const Numerics& n = p.numerics;
  // (If m is below 2, small numbers may become zeros, which have other signs.)
  return n.operation == Operation::kTimes && !n.in_type && !n.ties_to_zero &&
         Quotient::Safe(m, max) && (n.sign == SignRule::kSignBit || m >= 2.0f);
}

// Whether OtherCodes gives the same codes as the generic functions.
__device__ __forceinline__ bool IsOrdinaryForOthers(const Numerics& n,
                                                    const float (&v)[kBlock],
                                                    float d, uint32_t max) {
  if (n.ties_to_zero || !Quotient::Safe(d, max)) return false;
  if (n.sign == SignRule::kSignBit || d <= 0.5f) return true;
  // A quotient that underflows to 0 would get another sign than a tiny
  // quotient.
  uint32_t least = ~0u;
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) {
    // (Zeros wrap around, so they count as the largest.)
    const uint32_t magnitude = __float_as_uint(v[i]) * 2 - 1;
    least = magnitude < least ? magnitude : least;
  }
  constexpr uint32_t kTiny = (127u - 60u) << 24;  // 2^-60
  return least >= kTiny - 1;
}

// Codes of values that are divided by or multiplied with an operand.
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
  if (n.sign == SignRule::kSignBit) {
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) q[i] = NearestOf(q[i] * kE2M1Unit, v[i]);
    return E2M1Words(q);
  }
  return CodesOfProducts(n.sign, q, kE2M1Unit);
}

// Whether an MX block is ordinary: its operand is a power of two and at least
// 1, so that nothing is rounded and no sign is lost.
__device__ __forceinline__ bool IsOrdinaryForOtherMx(float m, uint32_t max) {
  return m >= 1.0f && m < 0x1p127f && max < kInfBits;
}
// v, or its neighbour toward zero if v * m lies on a tie whose even code is the
// larger one. (A factor just below 1 would round a subnormal v back to v.)
__device__ __forceinline__ float BelowTie(float v, float m) {
  const float y = fabsf(v) * m;
  const bool tie = y == 0.75f || y == 1.75f || y == 3.5f;
  return __uint_as_float(__float_as_uint(v) - (tie ? 1u : 0u));
}
// Codes of an ordinary MX block.
__device__ __forceinline__ Sixteen OtherMxCodes(const EncodeParams& p,
                                                const float (&v)[kBlock],
                                                float m) {
  const Numerics& n = p.numerics;
  if (n.ties_to_zero && p.input == DType::kF32) {
    float below[kBlock];
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) below[i] = BelowTie(v[i], m);
    return CodesOfProducts(n.sign, below, m * kE2M1Unit);
  }
  // Moves ties to just below. No other 16-bit number is so close to a tie.
  return CodesOfProducts(
      n.sign, v, m * (n.ties_to_zero ? 0x1.FFFFFEp-1f * kE2M1Unit : kE2M1Unit));
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_OTHERS_CUH_
