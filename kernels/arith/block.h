// NVFP4 for one block of 16 elements a lane: maximum, scale, codes and back.
// The heart; both devices include it. kernels/plan/FORMATS.md is its prose.
#ifndef QUANTD_KERNELS_ARITH_BLOCK_H_
#define QUANTD_KERNELS_ARITH_BLOCK_H_

#include <cstdint>

#include "kernels/arith/codec.h"
#include "kernels/arith/hadamard.h"
#include "kernels/arith/lanes.h"

namespace quantd {
inline namespace QUANTD_ARITH {

inline constexpr int kBlock = 16;

// What the global amax decides for every block.
struct Nvfp4Encode {
  float s_dec;   // 1 / S
  float s_inv6;  // S * fl32(1/6)
};
struct Nvfp4Decode {
  float amax;  // the factor of a block is (float(sf) * amax) * k ...
  float k;
};

// S = 2688 / amax, at most FLT_MAX; 1 where amax is 0 or Inf.
QUANTD_FN float Nvfp4EncodeScale(float amax) {
  const float flt_max = Scalar::Float(kFltMaxBits);
  float s = 2688.0f / amax;
  s = s < flt_max ? s : flt_max;  // NaN too
  return amax == 0.0f || s == 0.0f ? 1.0f : s;
}

QUANTD_FN Nvfp4Encode MakeNvfp4Encode(float amax) {
  const float s = Nvfp4EncodeScale(amax);
  return {1.0f / s, s * Scalar::Float(0x3E2AAAABu)};
}

// Decoding follows what encoding did where the plain formula would not: a tiny
// amax is the one S saturated at, and for a huge one the factor is
// float(sf) / S, since float(sf) * amax would overflow.
QUANTD_FN Nvfp4Decode MakeNvfp4Decode(float amax) {
  const float flt_max = Scalar::Float(kFltMaxBits);
  const float smallest = 2688.0f / flt_max;
  if (amax > flt_max / 448.0f) return {1.0f / Nvfp4EncodeScale(amax), 1.0f};
  if (amax > 0.0f && amax < smallest) amax = smallest;
  return {amax, Scalar::Float(0x39C30C31u)};  // fl32(1/2688)
}

// Largest magnitude of a block as fp32 bits. A NaN is larger than Inf here, so
// a result above kInfBits says that the block holds one.
template <typename L>
QUANTD_FN typename L::U MaxMagnitude(const typename L::F (&v)[kBlock]) {
  using U = typename L::U;
  U m = L::Bits(v[0]) & kAbsMask;
  QUANTD_UNROLL
  for (int i = 1; i < kBlock; ++i) {
    const U a = L::Bits(v[i]) & kAbsMask;
    m = L::Max(a, m);
  }
  return m;
}

// The same with NaN dropped: at most kInfBits, 0 for a block of NaN.
template <typename L>
QUANTD_FN typename L::U MaxMagnitudeIgnoringNan(
    const typename L::F (&v)[kBlock]) {
  using U = typename L::U;
  U m{};
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) {
    const U a = L::Bits(v[i]) & kAbsMask;
    const U number = a > kInfBits ? m : a;
    m = L::Max(number, m);
  }
  return m;
}

// Rotates a block and rounds it to bf16, as amax and codes are to see it.
// Returns its MaxMagnitude. `kExact`: see RotateForward.
template <typename L, bool kExact = false>
QUANTD_FN typename L::U RotateToBf16(typename L::F (&v)[kBlock],
                                     const typename L::F* signs) {
  using U = typename L::U;
  RotateForward<L, kExact>(v, signs);
  const U max = MaxMagnitude<L>(v);
  if (L::Any(max > kInfBits)) {
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) {
      const U rounded = L::Bits(RoundToBf16<L>(v[i]));
      const U nan = U{} + kNanBits;
      v[i] = L::Float(IsNan<L>(v[i]) ? nan : rounded);
    }
    return MaxMagnitude<L>(v);
  }
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) v[i] = RoundToBf16<L>(v[i]);
  // Rounding is monotone: the largest rounded is the largest, rounded.
  return L::Bits(RoundToBf16<L>(L::Float(max)));
}

// Codes 0..7 in the low word from the low nibble up, 8..15 in the high word.
template <typename L>
struct Nvfp4Block {
  typename L::U low;
  typename L::U high;
  typename L::U scale;  // E4M3 code in the low byte
};

// Multiplier of the elements under a scale.
template <typename L>
QUANTD_FN typename L::F Nvfp4Multiplier(typename L::U scale, float s_dec) {
  using F = typename L::F;
  using U = typename L::U;
  const F m = 1.0f / (DecodeE4M3<L>(scale) * s_dec);
  const U bits = L::Bits(m);
  return L::Float(L::Min(bits & kAbsMask, U{} + kFltMaxBits));  // Inf, NaN too
}

// Codes of a block under a given scale, whose Nvfp4Multiplier is `m`. NaN: see
// PackE2M1.
template <typename L, E2M1Input kInput>
QUANTD_FN Nvfp4Block<L> EncodeNvfp4Under(const typename L::F (&v)[kBlock],
                                         typename L::U scale, typename L::F m) {
  return {PackE2M1<L, kInput>(v, m), PackE2M1<L, kInput>(v + 8, m), scale};
}

// Whether values of a block with that maximum may reach 7 once multiplied: not
// where the scale is a normal E4M3 number, within 1/16 of what was asked for,
// and not in a block of zeros. From 464 on it saturates too much. True for NaN
// and Inf.
template <typename L>
QUANTD_FN auto Nvfp4MayReach7(typename L::U max, Nvfp4Encode global) {
  const typename L::U wanted = L::Bits(L::Float(max) * global.s_inv6);
  return ((wanted - 0x3C800000u) >= (0x43E80000u - 0x3C800000u)) & (max != 0u);
}

// The E4M3 scale of a block whose largest magnitude is `max`, NaN dropped.
template <typename L>
QUANTD_FN typename L::U Nvfp4Scale(typename L::U max, Nvfp4Encode global) {
  return EncodeE4M3Positive<L>(L::Float(max) * global.s_inv6);
}

// Encodes a block whose MaxMagnitude is `max`. NaN in the block: dropped from
// its maximum, or, with `propagate`, the scale is NaN.
template <typename L>
QUANTD_FN Nvfp4Block<L> EncodeNvfp4(const typename L::F (&v)[kBlock],
                                    typename L::U max, Nvfp4Encode global,
                                    bool propagate) {
  using U = typename L::U;
  if (!L::Any(max > kInfBits)) {
    const U scale = Nvfp4Scale<L>(max, global);
    return EncodeNvfp4Under<L, E2M1Input::kAny>(
        v, scale, Nvfp4Multiplier<L>(scale, global.s_dec));
  }
  U scale = Nvfp4Scale<L>(MaxMagnitudeIgnoringNan<L>(v), global);
  if (propagate) {
    const U nan = U{} + 0x7Fu;
    scale = max > kInfBits ? nan : scale;
  }
  Nvfp4Block<L> block = EncodeNvfp4Under<L, E2M1Input::kAny>(
      v, scale, Nvfp4Multiplier<L>(scale, global.s_dec));
  // NaN came out as code 7, as it should, but that code has no sign.
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) {
    U& word = i < 8 ? block.low : block.high;
    const U positive = word & ~(8u << (4 * (i % 8)));
    word = IsNan<L>(v[i]) ? positive : word;
  }
  return block;
}

// Decodes a block to fp32, before any rounding to an output type.
template <typename L>
QUANTD_FN void DecodeNvfp4(const Nvfp4Block<L>& block, Nvfp4Decode global,
                           typename L::F (&v)[kBlock]) {
  using F = typename L::F;
  const F factor = (DecodeE4M3<L>(block.scale) * global.amax) * global.k;
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) {
    const typename L::U word = i < 8 ? block.low : block.high;
    v[i] = DecodeE2M1<L>((word >> (4 * (i % 8))) & 0xFu) * factor;
  }
}

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_BLOCK_H_
