// Multiplications that give what divisions do, where elements are bf16.
#ifndef QUANTD_KERNELS_ARITH_PROFILE_QUOTIENT_H_
#define QUANTD_KERNELS_ARITH_PROFILE_QUOTIENT_H_

#include "kernels/arith/codec.h"
#include "kernels/arith/lanes.h"
#include "kernels/arith/nvfp4.h"

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
