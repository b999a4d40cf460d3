// Multiplications that give what divisions do, where elements are bf16.
#ifndef QUANTD_KERNELS_ARITH_PROFILE_QUOTIENT_H_
#define QUANTD_KERNELS_ARITH_PROFILE_QUOTIENT_H_

#include "kernels/arith/codec.h"
#include "kernels/arith/lanes.h"
#include "kernels/arith/nvfp4.h"
#include "kernels/arith/profile/numerics.h"

namespace quantd {
inline namespace QUANTD_ARITH {

// A number m such that x * m has the E2M1 code of x / d for every bf16 x whose
// quotient and product are within the normal numbers of fp32; 0: none of those
// tried. d is within [2^-100, 2^100].
//
// The code changes at seven quotients. So only the seven pairs of neighbouring
// bf16 matter between which x / d passes one of them, and an m under which
// x * m passes them there, too, will do for all. The nearest fp32 to 1 / d, or
// one beside it, nearly always does.
inline float QuotientMultiplier(float d) {
  const auto threshold = [](int i) {
    return i == 6  ? 5.0f
           : i < 4 ? 0.25f + 0.5f * static_cast<float>(i)
                   : static_cast<float>(i) - 1.5f;
  };
  // A tie goes to the even code.
  const auto passes = [&](float y, int i) {
    return i % 2 == 0 ? y > threshold(i) : y >= threshold(i);
  };
  uint32_t first[7];  // the first bf16 beyond, its bits
  for (int i = 0; i < 7; ++i) {
    first[i] = Scalar::Bits(threshold(i) * d) >> 16;
    while (!passes(Scalar::Float(first[i] << 16) / d, i)) ++first[i];
  }
  const uint32_t nearest = Scalar::Bits(1.0f / d);
  constexpr int kBeside[] = {0, 1, -1, 2};
  for (const int beside : kBeside) {
    const float m = Scalar::Float(nearest + static_cast<uint32_t>(beside));
    bool good = true;
    for (int i = 0; i < 7; ++i) {
      good &= passes(Scalar::Float(first[i] << 16) * m, i) &&
              !passes(Scalar::Float((first[i] - 1) << 16) * m, i);
    }
    if (good) return m;
  }
  return 0.0f;
}

// A number m such that b * m is rounded to the same E4M3 scale as what a
// profile wants under g, for every bf16 b whose scale is a normal number; 0:
// none of those tried. g is within [2^-80, 2^80].
//
// Both are proportional to b's power of two, so that one binade tells all.
template <typename L>
QUANTD_FN float ScaleMultiplier(const EncodeParams& p, float g) {
  using U = typename L::U;
  using F = typename L::F;
  const auto target = [&](float b) {
    return Nvfp4TargetUnder<Scalar>(p, g, Scalar::Bits(b));
  };
  // From here on what is wanted is 1 to 4.
  const uint32_t first = (254u - (Scalar::Bits(target(1.0f)) >> 23)) << 23;
  const uint32_t nearest =
      Scalar::Bits(target(Scalar::Float(first)) / Scalar::Float(first));
  constexpr int kBeside[] = {0, 1, -1, 2, -2};
  for (const int beside : kBeside) {
    const float m = Scalar::Float(nearest + static_cast<uint32_t>(beside));
    bool good = true;
    for (uint32_t i = 0; i < 128 && good; i += L::kWidth) {
      U b = U{} + (first + (i << 16));
      if constexpr (L::kWidth > 1) {
        U beyond;
        L::Progression(first + (i << 16), 1u << 16, &b, &beyond);
      }
      const F wanted = Nvfp4TargetUnder<L>(p, L::Broadcast(g), b);
      good = !L::Any(EncodeE4M3Positive<L>(wanted) ^
                     EncodeE4M3Positive<L>(L::Float(b) * m));
    }
    if (good) return m;
  }
  return 0.0f;
}

// b / 6 rounded to bf16, for a bf16 b whose sixth is a normal number. No sixth
// of a bf16 lies halfway between two of them, nor so near that the error of the
// product would matter.
template <typename L>
QUANTD_FN typename L::F SixthInBf16(typename L::F b) {
  return RoundToBf16<L>(b * Scalar::Float(kSixthBits));
}

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_PROFILE_QUOTIENT_H_
