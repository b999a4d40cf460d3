// Multiplications that replace divisions of bf16 elements, with the same
// results.
#ifndef QUANTD_KERNELS_ARITH_PROFILE_QUOTIENT_H_
#define QUANTD_KERNELS_ARITH_PROFILE_QUOTIENT_H_

#include "kernels/arith/codec.h"
#include "kernels/arith/lanes.h"
#include "kernels/arith/nvfp4.h"
#include "kernels/arith/profile/numerics.h"

namespace quantd {
inline namespace QUANTD_ARITH {

// Finds a number m such that x * m and x / d have the same E2M1 code for every
// bf16 x whose product and quotient are normal fp32 numbers. Returns 0 if no
// candidate has this property. d is within [2^-100, 2^100].
//
// The code changes at seven thresholds of the quotient. For each threshold, x /
// d crosses it between two neighbouring bf16. If x * m crosses each threshold
// between the same two, m is correct for all x. The fp32 nearest to 1 / d, or
// one of its neighbours, is nearly always correct.
inline float QuotientMultiplier(float d) {
  const auto threshold = [](int i) {
    return i == 6  ? 5.0f
           : i < 4 ? 0.25f + 0.5f * static_cast<float>(i)
                   : static_cast<float>(i) - 1.5f;
  };
  // A tie is rounded to the even code.
  const auto passes = [&](float y, int i) {
    return i % 2 == 0 ? y > threshold(i) : y >= threshold(i);
  };
  uint32_t first[7];  // bits of the first bf16 beyond each threshold
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

// Finds a number m such that b * m rounds to the profile's E4M3 scale under g,
// for every bf16 b whose scale is a normal number. Returns 0 if no candidate
// has this property. g is within [2^-80, 2^80].
//
// Both values are proportional to b's power of two, so checking one binade is
// enough.
template <typename L>
QUANTD_FN float ScaleMultiplier(const EncodeParams& p, float g) {
  using U = typename L::U;
  using F = typename L::F;
  const auto target = [&](float b) {
    return Nvfp4TargetUnder<Scalar>(p, g, Scalar::Bits(b));
  };
  // From here on the target is between 1 and 4.
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
// of a bf16 is so close to the middle between two bf16 that the product's error
// matters.
template <typename L>
QUANTD_FN typename L::F SixthInBf16(typename L::F b) {
  return RoundToBf16<L>(b * Scalar::Float(kSixthBits));
}

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_PROFILE_QUOTIENT_H_
