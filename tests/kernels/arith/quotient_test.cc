// Multiplications that replace divisions, tested with every bf16.
#include "kernels/arith/profile/quotient.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>

#include "kernels/arith/e2m1.h"
#include "kernels/arith/encode.h"
#include "kernels/plan/profile/profile.h"

namespace quantd {
namespace {

uint32_t CodeOf(float y) { return EncodeE2M1Magnitude<Scalar, true>(y) & 7u; }

TEST(Quotient, CodesOfEveryBf16AreThoseOfTheDivision) {
  std::mt19937 random(1);
  int found = 0;
  constexpr int kDivisors = 400;
  for (int i = 0; i < kDivisors; ++i) {
    // Mantissas of few bits, which cause ties, and random mantissas.
    const uint32_t mantissa = static_cast<uint32_t>(random()) & 0x7FFFFFu;
    const int exponent = static_cast<int>(random() % 161) - 100;
    const float d = std::ldexp(
        Scalar::Float(0x3F800000u |
                      (i % 2 == 0 ? mantissa & 0x7E0000u : mantissa)),
        exponent);
    const float m = QuotientMultiplier(d);
    if (m == 0.0f) continue;
    ++found;
    for (uint32_t bits = 0; bits < 0x7F80u; ++bits) {
      const float x = Scalar::Float(bits << 16);
      if (x / d > 8.0f) break;
      ASSERT_EQ(CodeOf(x * m), CodeOf(x / d)) << x << " / " << d;
    }
  }
  // If there is no multiplier, elements are divided, which is correct but
  // slower.
  EXPECT_GE(found, kDivisors * 95 / 100);
}

TEST(Quotient, ScalesOfEveryBf16AreThoseOfTheDivision) {
  std::mt19937 random(2);
  for (const ProfileSpec& profile : Profiles()) {
    const Numerics* n = FindNumerics(profile.profile, Format::kNvfp4);
    if (n == nullptr || !WorksWithGlobal<true>(*n)) continue;
    SCOPED_TRACE(Name(profile.profile));
    EncodeParams params = {};
    params.input = DType::kBF16;
    params.numerics = *n;
    int found = 0;
    constexpr int kGlobals = 400;
    for (int i = 0; i < kGlobals; ++i) {
      const float g =
          std::ldexp(Scalar::Float(0x3F800000u | (random() & 0x7FFFFFu)),
                     static_cast<int>(random() % 161) - 80);
      const float m = ScaleMultiplier<Scalar>(params, g);
      if (m == 0.0f) continue;
      ++found;
      for (uint32_t bits = 0; bits < 0x7F80u; ++bits) {
        const float b = Scalar::Float(bits << 16);
        const float wanted =
            Nvfp4TargetUnder<Scalar>(params, g, Scalar::Bits(b));
        // Skips scales that are not normal numbers, and values that may
        // saturate.
        if (!(wanted >= 0x1p-6f && wanted < 464.0f)) continue;
        ASSERT_EQ(EncodeE4M3Positive<Scalar>(b * m),
                  EncodeE4M3Positive<Scalar>(wanted))
            << b << " under " << g;
      }
    }
    // If sixths are rounded first, few global scales have a multiplier.
    if (n->target != ScaleTarget::kGlobalTimesSixth) {
      EXPECT_GE(found, kGlobals * 95 / 100);
    }
  }
}

TEST(Quotient, SixthsOfEveryBf16) {
  // From 2^-123 on, so that sixths are normal numbers.
  for (uint32_t bits = 0x0200u; bits < 0x7F80u; ++bits) {
    const float b = Scalar::Float(bits << 16);
    ASSERT_EQ(SixthInBf16<Scalar>(b), RoundToBf16<Scalar>(b / 6.0f)) << b;
  }
}

}  // namespace
}  // namespace quantd
