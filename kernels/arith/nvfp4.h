// NVFP4's arithmetic, over a lane type (kernels/arith/lanes.h): from an amax to
// the scales of blocks of 16, to multipliers and codes, and back. Both devices
// and every kernel use it; kernels/plan/FORMATS.md explains it.
#ifndef QUANTD_KERNELS_ARITH_NVFP4_H_
#define QUANTD_KERNELS_ARITH_NVFP4_H_

#include <cstdint>

#include "kernels/arith/codec.h"
#include "kernels/arith/e2m1.h"
#include "kernels/arith/lanes.h"
#include "kernels/arith/maxima.h"

namespace quantd {
inline namespace QUANTD_ARITH {

// The range of a tensor, to which its amax is scaled: the largest code, 6,
// times the largest scale. 4over6 may limit scales to 256, so that the larger
// of its two scales still fits.
inline constexpr float kNvfp4Range448 = 6.0f * 448.0f;
inline constexpr float kNvfp4Range256 = 6.0f * 256.0f;
constexpr float Nvfp4Range(bool scale_256) {
  return scale_256 ? kNvfp4Range256 : kNvfp4Range448;
}

inline constexpr float kLargestFloat = 0x1.FFFFFEp127f;
inline constexpr uint32_t kSixthBits = 0x3E2AAAABu;  // fl32(1 / 6)
inline constexpr uint32_t kNvfp4NanScale = 0x7Fu;    // E4M3's NaN

// --- one amax ---------------------------------------------------------------

// The encode scale S = range / amax: at most FLT_MAX, and 1 if amax is 0 or
// Inf.
template <typename L>
QUANTD_FN typename L::F Nvfp4EncodeScale(typename L::F amax, float range) {
  using F = typename L::F;
  const F largest = L::Broadcast(L::Float32(kFltMaxBits));
  const F one = L::Broadcast(1.0f);
  const F zero{};
  F s = L::Broadcast(range) / amax;
  s = s < largest ? s : largest;  // also for NaN
  return (amax == zero) | (s == zero) ? one : s;
}

// The factor from a block's maximum to its target scale. `F` is a lane's float
// or one for all lanes.
template <typename F>
QUANTD_FN F Nvfp4InverseSix(F s) {
  return s * Scalar::Float(kSixthBits);
}

// Values for encoding that all blocks under an amax share.
struct Nvfp4Encode {
  float s_dec;   // 1 / S
  float s_inv6;  // Nvfp4InverseSix(S)
};
QUANTD_FN Nvfp4Encode MakeNvfp4Encode(float amax, float range) {
  const float s = Nvfp4EncodeScale<Scalar>(amax, range);
  return {1.0f / s, Nvfp4InverseSix(s)};
}

// Values for decoding that all blocks under an amax share. A block's factor is
// (float(scale) * amax) * k.
template <typename L>
struct Nvfp4Decode {
  typename L::F amax;
  typename L::F k;
};

// Follows the encoder where the plain formula would differ. A tiny amax is
// replaced by the amax at which S saturates. For a huge amax the factor is
// float(scale) / S, because float(scale) * amax would overflow.
template <typename L>
QUANTD_FN Nvfp4Decode<L> MakeNvfp4Decode(typename L::F amax, float range) {
  using F = typename L::F;
  // There are only two ranges, so the compiler computes the divisions.
  const bool wide = range == kNvfp4Range448;
  const F smallest = L::Broadcast(wide ? kNvfp4Range448 / kLargestFloat
                                       : kNvfp4Range256 / kLargestFloat);
  const F zero{};
  const F one = L::Broadcast(1.0f);
  const F k =
      L::Broadcast(wide ? 1.0f / kNvfp4Range448 : 1.0f / kNvfp4Range256);
  const auto huge = amax > L::Broadcast(kLargestFloat / 448.0f);
  if (L::Any(huge)) {
    const F inverse = one / Nvfp4EncodeScale<L>(amax, range);
    const F used = (amax > zero) & (amax < smallest) ? smallest : amax;
    return {huge ? inverse : used, huge ? one : k};
  }
  return {(amax > zero) & (amax < smallest) ? smallest : amax, k};
}

// --- one block --------------------------------------------------------------

// The E4M3 scale of a block whose largest magnitude is `max`, NaN dropped.
template <typename L, typename F>
QUANTD_FN typename L::U Nvfp4Scale(typename L::U max, F s_inv6) {
  return EncodeE4M3Positive<L>(L::Float(max) * s_inv6);
}

// The multiplier of the elements under a scale: at most FLT_MAX, even if the
// division gives Inf or NaN.
template <typename L, typename F>
QUANTD_FN typename L::F Nvfp4Multiplier(typename L::U scale, F s_dec) {
  using U = typename L::U;
  const typename L::F m = L::Broadcast(1.0f) / (DecodeE4M3<L>(scale) * s_dec);
  return L::Float(L::Min(L::Bits(m) & kAbsMask, U{} + kFltMaxBits));
}

// Whether values of a block whose target scale is `wanted` may reach 7 after
// scaling. They cannot if the scale is a normal E4M3 number, which is within
// 1/16 of the target, unless the target is 464 or more and the scale saturates.
// (They cannot in a block of zeros either, which callers handle.) True for NaN
// and Inf.
template <typename L>
QUANTD_FN auto Nvfp4MayReach7(typename L::F wanted) {
  constexpr uint32_t kLeastNormal = 0x3C800000u;  // 2^-6
  constexpr uint32_t kTooLarge = 0x43E80000u;     // 464
  return (L::Bits(wanted) - kLeastNormal) >= (kTooLarge - kLeastNormal);
}

// The factor of the codes under a scale. `Decode` is an Nvfp4Decode of the same
// lanes, or a Scalar's for all lanes.
template <typename L, typename Decode>
QUANTD_FN typename L::F Nvfp4Factor(typename L::U scale, const Decode& global) {
  return (DecodeE4M3<L>(scale) * global.amax) * global.k;
}

// Codes 0..7 in the low word from the low nibble up, 8..15 in the high word.
template <typename L>
struct Nvfp4Block {
  typename L::U low;
  typename L::U high;
  typename L::U scale;  // E4M3 code in the low byte
};

// Codes of a block under a given scale, whose Nvfp4Multiplier is `m`. For NaN
// see PackE2M1.
template <typename L, E2M1Input kInput, E2M1Order kOrder = E2M1Order::kLowFirst>
QUANTD_FN Nvfp4Block<L> EncodeNvfp4Under(const typename L::F (&v)[kBlock],
                                         typename L::U scale, typename L::F m) {
  return {PackE2M1<L, kInput, kOrder>(v, m),
          PackE2M1<L, kInput, kOrder>(v + 8, m), scale};
}

// Encodes a block whose MaxMagnitude is `max`. A NaN in the block is dropped
// from its maximum or, with `propagate`, makes the scale NaN.
template <typename L>
QUANTD_FN Nvfp4Block<L> EncodeNvfp4(const typename L::F (&v)[kBlock],
                                    typename L::U max, Nvfp4Encode global,
                                    bool propagate) {
  using U = typename L::U;
  if (!L::Any(max > kInfBits)) {
    const U scale = Nvfp4Scale<L>(max, global.s_inv6);
    return EncodeNvfp4Under<L, E2M1Input::kAny>(
        v, scale, Nvfp4Multiplier<L>(scale, global.s_dec));
  }
  U scale = Nvfp4Scale<L>(MaxNumber<L>(v), global.s_inv6);
  if (propagate) {
    const U nan = U{} + kNvfp4NanScale;
    scale = max > kInfBits ? nan : scale;
  }
  Nvfp4Block<L> block = EncodeNvfp4Under<L, E2M1Input::kAny>(
      v, scale, Nvfp4Multiplier<L>(scale, global.s_dec));
  // NaN became code 7, which is right, but the code must have no sign.
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
QUANTD_FN void DecodeNvfp4(const Nvfp4Block<L>& block,
                           const Nvfp4Decode<Scalar>& global,
                           typename L::F (&v)[kBlock]) {
  const typename L::F factor = Nvfp4Factor<L>(block.scale, global);
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) {
    const typename L::U word = i < 8 ? block.low : block.high;
    v[i] = DecodeE2M1<L>((word >> (4 * (i % 8))) & 0xFu) * factor;
  }
}

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_NVFP4_H_
