// The arithmetic of profiles other than TransformerEngine's, as struct Numerics
// (kernels/plan/profile/numerics.h) describes it, over a lane type
// (kernels/arith/lanes.h). kernels/plan/FORMATS.md explains it.
#ifndef QUANTD_KERNELS_ARITH_PROFILE_NUMERICS_H_
#define QUANTD_KERNELS_ARITH_PROFILE_NUMERICS_H_

#include <cstdint>

#include "kernels/arith/codec.h"
#include "kernels/arith/e2m1.h"
#include "kernels/arith/encode_params.h"
#include "kernels/arith/lanes.h"
#include "kernels/arith/nvfp4.h"

namespace quantd {
inline namespace QUANTD_ARITH {

// Rounds to the nearest value of a type; NaN stays NaN.
template <typename L>
QUANTD_FN typename L::F RoundToType(DType type, typename L::F x) {
  if (type == DType::kF32) return x;
  const typename L::F rounded =
      type == DType::kBF16 ? RoundToBf16<L>(x) : DecodeF16<L>(EncodeF16<L>(x));
  return L::Float(IsNan<L>(x) ? L::Bits(x) : L::Bits(rounded));
}

// The least normal number of an input's type.
QUANTD_FN float LeastNormal(DType type) {
  return type == DType::kF16 ? 0x1p-14f : 0x1p-126f;
}

// `x` if it is a finite number > 0, else `instead`.
template <typename L>
QUANTD_FN typename L::F PositiveOr(typename L::F x, float instead) {
  const typename L::U bits = L::Bits(x);
  const auto usable = (bits != 0u) & (bits < kInfBits);
  return L::Float(usable ? bits : L::Bits(L::Broadcast(instead)));
}

// --- NVFP4 ------------------------------------------------------------------

// The library's global value for an amax, g or 1 / S. Most profiles scale
// blocks by it. It is 0 for an amax of 0 in most profiles.
template <typename L>
QUANTD_FN typename L::F RawGlobalScale(const EncodeParams& p,
                                       typename L::F amax) {
  using F = typename L::F;
  const Numerics& n = p.numerics;
  const F range = L::Broadcast(kNvfp4Range448);
  const F one = L::Broadcast(1.0f);
  F g = one;
  switch (n.global) {
    case GlobalRule::kEncodeScale:
      return one / Nvfp4EncodeScale<L>(amax, kNvfp4Range448);
    case GlobalRule::kQuotient:
      g = amax / range;
      break;
    case GlobalRule::kProduct:
      g = amax * L::Broadcast(1.0f / kNvfp4Range448);
      break;
    case GlobalRule::kDivisor: {
      // The least normal number, which differs for fp16.
      const F tiny = L::Broadcast(LeastNormal(p.input));
      g = RoundToType<L>(p.input, one / (amax < tiny ? tiny : amax));
      g = RoundToType<L>(p.input, g * range);
      break;
    }
  }
  return n.global_in_type ? RoundToType<L>(p.input, g) : g;
}

// RawGlobalScale, or 1 in place of a value by which blocks cannot be divided.
template <typename L>
QUANTD_FN typename L::F GlobalScaleOf(const EncodeParams& p,
                                      typename L::F amax) {
  return PositiveOr<L>(RawGlobalScale<L>(p, amax), 1.0f);
}

// The value that is rounded to a block's scale under g. `max` is the block's
// largest magnitude, NaN dropped.
template <typename L>
QUANTD_FN typename L::F Nvfp4TargetUnder(const EncodeParams& p, typename L::F g,
                                         typename L::U max) {
  using F = typename L::F;
  const F b = L::Float(max);
  const F six = L::Broadcast(6.0f);
  switch (p.numerics.target) {
    case ScaleTarget::kSixthOfEncodeScale:  // does not use g
      break;
    case ScaleTarget::kOverSixGlobals:
      return b / (g * six);
    case ScaleTarget::kGlobalTimesSixth:
      return g * RoundToType<L>(p.input, b / six);
    case ScaleTarget::kSixthOverGlobal:
      return (b / six) / g;
    case ScaleTarget::kProductOverGlobal:
      return (b * Scalar::Float(kSixthBits)) / g;
  }
  return b;
}

// The E4M3 scale for a `target` from Nvfp4TargetUnder.
template <typename L>
QUANTD_FN typename L::U Nvfp4ScaleOfTarget(const Numerics& n,
                                           typename L::F target) {
  using U = typename L::U;
  const U zero{};
  const U code = L::Max(EncodeE4M3Positive<L>(target), zero + n.least_scale);
  const auto nothing = (L::Bits(target) == 0u) | (code == 0u);
  const U instead = zero + n.zero_scale;
  return nothing ? instead : code;
}
template <typename L>
QUANTD_FN typename L::U Nvfp4ScaleUnder(const EncodeParams& p, typename L::F g,
                                        typename L::U max) {
  return Nvfp4ScaleOfTarget<L>(p.numerics, Nvfp4TargetUnder<L>(p, g, max));
}

// The multiplier or divisor of the elements, under a scale and g.
template <typename L>
QUANTD_FN typename L::F Nvfp4OperandUnder(const Numerics& n, typename L::F g,
                                          typename L::U scale) {
  using F = typename L::F;
  const F sf = DecodeE4M3<L>(scale);
  const F one = L::Broadcast(1.0f);
  if (n.operation == Operation::kTimes) return (one / g) / sf;
  return n.global == GlobalRule::kDivisor ? sf / g : sf * g;
}

// --- FP8 --------------------------------------------------------------------

// The stored scale for the amax of a tensor, a line or a block.
template <typename L>
QUANTD_FN typename L::F Fp8ScaleOf(const EncodeParams& p, typename L::F amax) {
  using F = typename L::F;
  using U = typename L::U;
  const Numerics& n = p.numerics;
  const F least = L::Broadcast(n.least_amax);
  amax = amax < least ? least : amax;
  if (n.least_normal) {
    const F tiny = L::Broadcast(LeastNormal(p.input));
    const auto less = (amax < tiny) & (L::Bits(amax) != 0u);
    amax = L::Float(less ? L::Bits(tiny) : L::Bits(amax));
  }
  F s = n.fp8 == Fp8Rule::kProduct ? amax * L::Broadcast(p.inverse_max)
                                   : amax / L::Broadcast(p.element_max);
  if (n.scale_in_type) s = RoundToType<L>(p.input, s);
  const float epsilon = p.input == DType::kF32   ? 0x1p-23f
                        : p.input == DType::kF16 ? 0x1p-10f
                                                 : 0x1p-7f;
  const U instead = L::Bits(L::Broadcast(n.epsilon_for_zero ? epsilon : 1.0f));
  s = L::Float(L::Bits(s) == 0u ? instead : L::Bits(s));
  return PositiveOr<L>(s, 1.0f);
}

template <typename L>
QUANTD_FN typename L::F Fp8OperandOf(const EncodeParams& p, typename L::F s) {
  const Numerics& n = p.numerics;
  if (n.operation == Operation::kTimes) return L::Broadcast(1.0f) / s;
  return n.operand_in_type ? RoundToType<L>(p.input, s) : s;
}

// --- MX ---------------------------------------------------------------------

// The E8M0 code of ceil(fl32(log2 v)), v finite and >= 0. Numbers slightly
// above a power of two have the same logarithm as that power after rounding.
// The interval of such numbers widens with the distance from 1, because the
// step between fp32 logarithms grows.
template <typename L>
QUANTD_FN typename L::U CeilOfLog2(typename L::F v) {
  using U = typename L::U;
  const U zero{};
  const U bits = L::Bits(v);
  const U exponent = bits >> 23;
  const U fraction = bits & 0x7FFFFFu;
  // The distance of the exponent from 0. It is one less for negative exponents,
  // because fp32 numbers are denser below a power of two.
  const U away = exponent < 127u ? 126u - exponent : exponent - 127u;
  // floor(2^(m - 1) * ln 2) last places for 2^m <= away < 2^(m + 1).
  const U one = zero + 1u, two = zero + 2u, five = zero + 5u;
  const U eleven = zero + 11u, most = zero + 22u;
  U slack = away >= 4u ? one : zero;
  slack = away >= 8u ? two : slack;
  slack = away >= 16u ? five : slack;
  slack = away >= 32u ? eleven : slack;
  slack = away >= 64u ? most : slack;
  // Below 2^-126 the lowest power is 2^-127, and the last place is half as
  // fine.
  slack = exponent == 0u ? zero + (0x400000u + 11u) : slack;
  return fraction > slack ? exponent + 1u : exponent;
}

// The E8M0 scale of a block with the largest magnitude `amax` (fp32 bits, no
// NaN) by the profile's rule.
template <typename L>
QUANTD_FN typename L::U MxScaleBy(const EncodeParams& p, typename L::U amax) {
  using U = typename L::U;
  const U zero{};
  U code{};
  if (p.numerics.mx == MxRule::kLog2) {
    code = CeilOfLog2<L>(L::Float(amax) / L::Broadcast(p.element_max));
  } else {
    const U emax = zero + static_cast<uint32_t>(p.emax);
    const bool f16 = p.input == DType::kF16;
    // The largest exponent of the type is not raised, since the next one is
    // that of Inf.
    U exponent = L::Min((amax + 0x200000u) >> 23, zero + (f16 ? 142u : 254u));
    if (f16) {
      // Subnormal numbers have equal steps, so those from 3/4 of 2^-14 on are
      // raised.
      const U subnormal = amax >= 0x38400000u ? zero + 113u : zero;
      exponent = amax < 0x38800000u ? subnormal : exponent;
    }
    code = L::Max(exponent, emax) - emax;
    // A scale that fp16 cannot represent becomes 0 there, which is replaced by
    // 1.
    if (f16) code = code < 103u ? zero + 127u : code;
  }
  return amax == kInfBits ? zero + 0xFEu : code;
}

// The multiplier of the elements under an E8M0 scale.
template <typename L>
QUANTD_FN typename L::F MxMultiplierBy(const Numerics& n, typename L::U code) {
  using U = typename L::U;
  const U zero{};
  U bits = (254u - code) << 23;
  bits = code == 254u ? zero + 0x00400000u : bits;
  const U at_zero = zero + ((127u + n.exponent_at_zero) << 23);
  bits = code == 0u ? at_zero : bits;
  return L::Float(code == 0xFFu ? zero + kNanBits : bits);
}

// --- elements ---------------------------------------------------------------

// The value that is rounded to a code: `v` multiplied or divided by `operand`.
template <typename L>
QUANTD_FN typename L::F ScaledValue(const EncodeParams& p, typename L::F v,
                                    typename L::F operand) {
  using F = typename L::F;
  const Numerics& n = p.numerics;
  const F product =
      n.operation == Operation::kTimes ? v * operand : v / operand;
  // A zero stays a zero, even where 0 / 0 or 0 * Inf would give NaN.
  F y = (L::Bits(v) & kAbsMask) == 0u ? v : product;
  if (n.operation == Operation::kOverOrZero) {
    const F zero{};
    const auto number = (L::Bits(v) & kAbsMask) <= kInfBits;
    y = (operand == zero) & number ? zero : y;
  }
  return n.in_type ? RoundToType<L>(p.input, y) : y;
}

// The E2M1 code of y; NaN is 7.
template <typename L>
QUANTD_FN typename L::U EncodeE2M1By(const Numerics& n, typename L::F y) {
  using F = typename L::F;
  using U = typename L::U;
  const U zero{};
  const U one = zero + 1u;
  const U eight = zero + 8u;
  const F magnitude = L::Float(L::Bits(y) & kAbsMask);
  U code = EncodeE2M1Magnitude<L, true>(magnitude) & 7u;
  if (n.ties_to_zero) {
    const float midpoints[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.0f};
    code = zero;
    QUANTD_UNROLL
    for (int i = 0; i < 7; ++i) {
      code = code + (magnitude > L::Broadcast(midpoints[i]) ? one : zero);
    }
  }
  const F nothing{};
  U sign = (L::Bits(y) >> 28) & 8u;
  if (n.sign == SignRule::kNegative) sign = y < nothing ? eight : zero;
  if (n.sign == SignRule::kNotPositive) sign = y > nothing ? zero : eight;
  const U seven = zero + 7u;
  return IsNan<L>(y) ? seven : code | sign;
}

// Eight E2M1 codes of v multiplied (kTimes) or divided by `operand`, a finite
// number > 0, in a word, in the order of PackE2M1. kNegative: only results
// below 0 get a sign bit; otherwise every result gets that of v. v must not be
// NaN.
template <typename L, bool kTimes, bool kNegative>
QUANTD_FN typename L::U PackE2M1By(const typename L::F* v,
                                   typename L::F operand) {
  using U = typename L::U;
  U half[2] = {U{}, U{}};
  U signed_[8];
  QUANTD_UNROLL
  for (int i = 0; i < 8; ++i) {
    const U bits = L::Bits(kTimes ? v[i] * operand : v[i] / operand);
    const U magnitude = bits & kAbsMask;
    // The negation of a magnitude has the sign bit unless it is 0.
    signed_[i] = kNegative ? bits & (U{} - magnitude) : bits;
    const U code = EncodeE2M1Magnitude<L, true>(L::Float(magnitude));
    half[i / 4] |= code << (4 * (i % 4));
  }
  U signs{};
  QUANTD_UNROLL
  for (int i = 0; i < 4; ++i) {
    const U pair = L::JoinHighHalves(signed_[i], signed_[i + 4]);
    signs = (signs >> 4) | (pair & 0x80008000u);
  }
  return (half[0] & 0xFFFFu) | (half[1] << 16) | signs;
}

// Swaps the nibbles of each byte in words of E2M1 codes.
template <typename L>
QUANTD_FN typename L::U SwapNibbles(typename L::U word) {
  return (word & 0x0F0F0F0Fu) << 4 | ((word >> 4) & 0x0F0F0F0Fu);
}

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_PROFILE_NUMERICS_H_
