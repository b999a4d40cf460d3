// Encodes sixteen values with a scale, by the conversion instructions of the
// GPU if it has them. The generic functions of kernels/arith/encode.h encode
// other values: NaN, Inf, and values with scales near the ends of fp32's range.
#ifndef QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_CODES_CUH_
#define QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_CODES_CUH_

#include "kernels/cuda/encode/frame/codes/others.cuh"
#include "kernels/cuda/encode/nvfp4/stochastic.cuh"

namespace quantd::cuda {

__device__ __forceinline__ Sixteen EncodeFp8(const EncodeParams& p,
                                             const float (&v)[kBlock],
                                             float m) {
  float y[kBlock];
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) y[i] = v[i] * m;
  return Fp8Words(p.element, y);
}

// Whether a multiplier is far from the ends of fp32's range and no value is NaN
// or Inf.
__device__ __forceinline__ bool IsOrdinary(float m, uint32_t max) {
  constexpr uint32_t kLeast = 27u << 23;  // 2^-100
  return __float_as_uint(m) - kLeast <= kFltMaxBits - kLeast && max < kInfBits;
}

// Rounds v * m to nearest. kBelow7 says that all |v * m| are below 7.
template <bool kBelow7>
__device__ __forceinline__ Sixteen NearestCodes(const float (&v)[kBlock],
                                                float m) {
#if __CUDA_ARCH__ >= 890
  float q[kBlock];
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) q[i] = v[i];
  MultiplyBy(m * kE2M1Unit, q);
  if constexpr (!kConvertsE2M1) {
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) {
      q[i] = kBelow7 ? WithSignOf(NearestE2M1(fabsf(q[i])), v[i])
                     : NearestOf(q[i], v[i]);
    }
  }
  return E2M1Words(q);
#else
  return {{PackE2M1<Scalar, E2M1Input::kAny>(v, m),
           PackE2M1<Scalar, E2M1Input::kAny>(v + 8, m), 0, 0}};
#endif
}

// Rounds v * m stochastically. Byte i of `random` belongs to value i.
__device__ __forceinline__ Sixteen StochasticCodesOf(
    const float (&v)[kBlock], float m, const uint32_t (&random)[4]) {
  Sixteen codes = {};
  QUANTD_UNROLL
  for (int h = 0; h < 2; ++h) {
    const float* f = v + 8 * h;
    const auto of = [&](int i) { return fabsf(f[i] * m); };
    // Codes of elements 0 and 2, then 4 and 6; of 1 and 3, then 5 and 7.
    uint32_t even[2];
    uint32_t odd[2];
    uint32_t signs[4];
    QUANTD_UNROLL
    for (int i = 0; i < 2; ++i) {
      const uint32_t bytes = random[2 * h + i];
      even[i] = TwiceAnd(bytes & 0x00FF00FFu,
                         FractionalCodes(of(4 * i), of(4 * i + 2)));
      odd[i] = TwiceAnd(__byte_perm(bytes, 0, 0x4341),
                        FractionalCodes(of(4 * i + 1), of(4 * i + 3)));
      // Values near 6 or above may have become 8, which is no code.
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

// The codes of an E2M1 cell. `kept` is the copy of `p` in memory, for the
// generic functions. `random` is nullptr for rounding to nearest.
template <typename C>
__device__ __forceinline__ Sixteen EncodeE2M1Values(
    const EncodeParams& p, const EncodeParams& kept, const float (&v)[kBlock],
    float m, uint32_t max, const uint32_t (*random)[4]) {
  // With E4M3 scales, all but rare values are below 6.4 after scaling.
  constexpr bool kBelow7 = !C::kMx && !C::kOther && !C::kDraws;
  bool ordinary;
  if constexpr (C::kOther) {
    if constexpr (C::kMx) {
      if (IsOrdinaryForOtherMx(m, max)) return OtherMxCodes(p, v, m);
    } else {
      if (AreProducts(p, m, max)) {
        return CodesOfProducts(p.numerics.sign, v, m * kE2M1Unit);
      }
    }
    ordinary = IsOrdinaryForOthers(p.numerics, v, m, max);
  } else {
    ordinary = IsOrdinary(m, max);
    if constexpr (kBelow7) ordinary &= __uint_as_float(max) * m < 7.0f;
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
                           : NearestCodes<kBelow7>(v, m);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_ENCODE_FRAME_CODES_CODES_CUH_
