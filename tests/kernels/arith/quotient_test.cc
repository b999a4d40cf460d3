// Multiplications instead of divisions, over every bf16.
#include "kernels/arith/profile/quotient.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>

#include "kernels/arith/e2m1.h"

namespace quantd {
namespace {

uint32_t CodeOf(float y) { return EncodeE2M1Magnitude<Scalar, true>(y) & 7u; }

TEST(Quotient, CodesOfEveryBf16AreThoseOfTheDivision) {
  std::mt19937 random(1);
  int found = 0;
  constexpr int kDivisors = 400;
  for (int i = 0; i < kDivisors; ++i) {
    // Few bits, where ties are; and any.
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
  // Without one elements are divided: right, and slower.
  EXPECT_GE(found, kDivisors * 95 / 100);
}

TEST(Quotient, SixthsOfEveryBf16) {
  for (uint32_t bits = 0x0200u; bits < 0x7F80u; ++bits) {
    const float b = Scalar::Float(bits << 16);
    ASSERT_EQ(SixthInBf16<Scalar>(b), RoundToBf16<Scalar>(b / 6.0f)) << b;
  }
}

}  // namespace
}  // namespace quantd
