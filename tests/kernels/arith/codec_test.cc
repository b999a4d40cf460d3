// The lane functions for a single lane, compared with the oracle's tables and
// searches. lane_test.cc tests vectors of lanes.
#include "kernels/arith/codec.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>

#include "kernels/arith/e2m1.h"
#include "kernels/arith/hadamard.h"
#include "quantd/format.h"
#include "tests/oracle/oracle.h"
#include "tests/testing/tensors.h"

namespace quantd {
namespace {

using oracle::Element;
using L = Scalar;

float FloatOf(uint32_t bits) { return std::bit_cast<float>(bits); }
uint32_t BitsOf(float x) { return std::bit_cast<uint32_t>(x); }

// Calls f for every bf16 pattern with low halves near the rounding points, the
// neighbours of every fp16 value and of its midpoints, and random patterns.
void ForManyFloats(const std::function<void(float)>& f) {
  const auto failed = [] { return testing::Test::HasFatalFailure(); };
  for (uint32_t high = 0; high < 0x10000 && !failed(); ++high) {
    for (uint32_t low : {0x0u, 0x1u, 0x7FFFu, 0x8000u, 0x8001u, 0xFFFFu}) {
      f(FloatOf(high << 16 | low));
    }
  }
  for (uint32_t i = 0; i < 0x10000 && !failed(); ++i) {
    const uint32_t bits = BitsOf(oracle::ElementValue(Element::kF16, i));
    for (int32_t step : {-0x1000, -0xFFF, -1, 1, 0xFFF, 0x1000, 0x1001}) {
      f(FloatOf(bits + step));
    }
  }
  for (uint64_t i = 0; i < 1'000'000 && !failed(); ++i) {
    const uint64_t random = Mix(i);
    f(FloatOf(static_cast<uint32_t>(random)));
    // The exponents of the small formats, 2^-26 to 2^17.
    const auto exponent = static_cast<uint32_t>(101 + (random >> 32) % 44);
    f(FloatOf((random & 0x807FFFFF) | exponent << 23));
  }
}

TEST(CodecTest, DecodesEvery16BitValue) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const float bf16 = DecodeBf16<L>(i);
    const float f16 = DecodeF16<L>(i);
    const float want_bf16 = oracle::ElementValue(Element::kBF16, i);
    const float want_f16 = oracle::ElementValue(Element::kF16, i);
    if (std::isnan(want_bf16)) {
      ASSERT_TRUE(std::isnan(bf16)) << i;
    } else {
      ASSERT_EQ(BitsOf(bf16), BitsOf(want_bf16)) << i;
    }
    if (std::isnan(want_f16)) {
      ASSERT_TRUE(std::isnan(f16)) << i;
    } else {
      ASSERT_EQ(BitsOf(f16), BitsOf(want_f16)) << i;
    }
  }
}

TEST(CodecTest, EncodesTo16Bits) {
  ForManyFloats([](float x) {
    ASSERT_EQ(EncodeBf16<L>(x), oracle::ElementBits(Element::kBF16, x))
        << std::hex << BitsOf(x);
    ASSERT_EQ(EncodeF16<L>(x), oracle::ElementBits(Element::kF16, x))
        << std::hex << BitsOf(x);
    if (std::isnan(x)) return;
    ASSERT_EQ(BitsOf(RoundToBf16<L>(x)),
              BitsOf(oracle::RoundTo(Element::kBF16, x)));
  });
}

TEST(CodecTest, EncodesScales) {
  ForManyFloats([](float x) {
    x = std::fabs(x);
    if (std::isnan(x)) return;
    ASSERT_EQ(EncodeE4M3Positive<L>(x), oracle::E4m3Code(x)) << x;
  });
  for (int i = 0; i < 0x7E; ++i) {
    const float middle = (oracle::E4m3Value(i) + oracle::E4m3Value(i + 1)) / 2;
    for (float x :
         {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e9f)}) {
      EXPECT_EQ(EncodeE4M3Positive<L>(x), oracle::E4m3Code(x)) << x;
    }
  }
}

TEST(CodecTest, EncodesEightElementsPerWord) {
  float v[8] = {};
  int n = 0;
  ForManyFloats([&](float x) {
    v[n++] = x;
    if (n < 8) return;
    n = 0;
    const uint32_t word = PackE2M1<L, E2M1Input::kAny>(v, 1.0f);
    for (int i = 0; i < 8; ++i) {
      // Ignores the sign of a NaN, which the caller of PackE2M1 clears.
      const uint32_t code = word >> (4 * i) & (std::isnan(v[i]) ? 7 : 15);
      ASSERT_EQ(code, oracle::E2m1Code(v[i]))
          << std::hex << BitsOf(v[i]) << " at " << i;
    }
  });
}

// The fast function for magnitudes gives the codes of the full function.
TEST(CodecTest, EncodesFp8Magnitudes) {
  ForManyFloats([](float x) {
    const float y = std::fabs(x);
    if (std::isnan(y)) return;
    ASSERT_EQ((EncodeFp8Magnitude<L, 3>(y) & 0x7FFFFF), EncodeE4M3<L>(y)) << y;
    ASSERT_EQ((EncodeFp8Magnitude<L, 2>(y) & 0x7FFFFF), EncodeE5M2<L>(y)) << y;
  });
}

TEST(CodecTest, LimitsAreThoseOfTheCodes) {
  for (const ElementLimits& limits : kElementLimits) {
    const auto rounded = [&](float x) {
      switch (limits.element) {
        case DType::kE2M1x2:
          return DecodeE2M1<L>(EncodeE2M1<L>(x));
        case DType::kE4M3:
          return DecodeE4M3<L>(EncodeE4M3<L>(x));
        default:
          return DecodeE5M2<L>(EncodeE5M2<L>(x));
      }
    };
    SCOPED_TRACE(Name(limits.element));
    const float step = std::ldexp(1.0f, limits.emax - limits.mantissa);
    EXPECT_EQ(rounded(limits.max), limits.max);
    EXPECT_EQ(rounded(2 * limits.max), limits.max);
    EXPECT_EQ(std::ilogb(limits.max), limits.emax);
    EXPECT_EQ(rounded(limits.max - step), limits.max - step);
    EXPECT_NE(rounded(limits.max - step / 4), limits.max - step / 4);
    EXPECT_EQ(limits.clip, limits.max + step / 2);
  }
}

TEST(HadamardTest, RotatesAsTheOracleDoes) {
  for (Flavor f : kFlavors) {
    const auto x =
        oracle::Values(Element::kF32, MakeTensor(Element::kF32, 64000, f, 3));
    for (size_t b = 0; b < x.size() / 16; ++b) {
      const auto mask = static_cast<uint16_t>(Mix(b));
      float signs[16], y[16], z[16], want_y[16], want_z[16];
      for (int i = 0; i < 16; ++i) {
        signs[i] = mask >> i & 1 ? -0.25f : 0.25f;
        y[i] = z[i] = want_y[i] = want_z[i] = x[16 * b + i];
      }
      RotateForward<L>(y, signs);
      RotateInverse<L>(z, signs);
      oracle::Rotate(want_y, mask);
      oracle::RotateBack(want_z, mask);
      for (int i = 0; i < 16; ++i) {
        for (const auto& [want, got] :
             {std::pair(want_y[i], y[i]), std::pair(want_z[i], z[i])}) {
          if (std::isnan(want)) {
            ASSERT_TRUE(std::isnan(got)) << Name(f) << " block " << b;
          } else {
            ASSERT_EQ(BitsOf(got), BitsOf(want)) << Name(f) << " block " << b;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace quantd
