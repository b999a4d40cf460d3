// Compares the oracle's codes, scales, rotations and random bytes with
// definitions other than its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <set>

#include "tests/oracle/oracle.h"
#include "tests/testing/tensors.h"

namespace quantd {
namespace {

using oracle::Code;
using oracle::FourOverSix;
using oracle::Mask;
using oracle::Policy;
using oracle::ScaleRule;
using testing::ElementsAre;

float FloatOf(uint32_t bits) { return std::bit_cast<float>(bits); }
uint32_t BitsOf(float v) { return std::bit_cast<uint32_t>(v); }

// E5M2 is the upper byte of fp16, and every relevant value between two of its
// codes is an fp16 value.
TEST(OracleCodecTest, E5m2IsTheUpperHalfOfF16) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const auto half =
        static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(i)));
    if (i % 256 == 0) {
      const float v = oracle::E5m2Value(i / 256);
      if (std::isnan(half)) {
        ASSERT_TRUE(std::isnan(v)) << i;
      } else {
        ASSERT_EQ(BitsOf(v), BitsOf(half)) << i;
      }
    }
    const uint32_t magnitude = i & 0x7FFF;
    const uint32_t up = (magnitude + 0x7F + (magnitude >> 8 & 1)) >> 8;
    const uint32_t want =
        std::isnan(half) ? 0x7F : std::min(up, 0x7Bu) | (i >> 8 & 0x80);
    ASSERT_EQ(oracle::E5m2Code(half), want) << std::hex << i;
    if (std::isnan(half) || magnitude % 256 != 128) continue;
    // Right beside a tie, the value rounds to the nearest code.
    ASSERT_EQ(oracle::E5m2Code(std::nextafter(std::fabs(half), 0.0f)),
              std::min(magnitude >> 8, 0x7Bu));
    ASSERT_EQ(oracle::E5m2Code(std::nextafter(std::fabs(half), 1e9f)),
              std::min((magnitude >> 8) + 1, 0x7Bu));
  }
  EXPECT_EQ(oracle::E5m2Code(INFINITY), 0x7B);
  EXPECT_EQ(oracle::E5m2Code(-3e38f), 0xFB);
  EXPECT_EQ(oracle::E5m2Code(-NAN), 0x7F);
  EXPECT_EQ(oracle::E5m2Code(1e-45f), 0);
  EXPECT_EQ(oracle::E5m2Code(-0.0f), 0x80);
}

// From this threshold on, a value would round beyond the largest code if a
// larger one existed.
TEST(OracleCodecTest, ClipThresholds) {
  for (Code c : {Code::kE2m1, Code::kE4m3, Code::kE5m2}) {
    const float top = oracle::LargestCode(c);
    const uint8_t code = oracle::CodeOf(c, top);
    EXPECT_EQ(oracle::CodeValue(c, code), top);
    const float below = oracle::CodeValue(c, code - 1);
    EXPECT_EQ(oracle::ClipThreshold(c), top + (top - below) / 2);
    EXPECT_EQ(oracle::CodeOf(c, INFINITY), code);
  }
}

TEST(OracleCodecTest, E8m0UpByFields) {
  for (uint64_t i = 0; i < 200000; ++i) {
    uint32_t bits = static_cast<uint32_t>(Mix(i)) & 0x7FFFFFFF;
    if (i % 3 == 0) bits &= 0x7F800003;  // near powers of two
    if (i % 3 == 1) bits &= 0x00FFFFFF;  // near the smallest numbers
    const uint32_t exponent = bits >> 23;
    const uint32_t fraction = bits & 0x7FFFFF;
    uint32_t want = exponent;
    if (exponent == 255) {
      want = fraction ? 255 : 254;
    } else if (fraction > 0 && exponent != 254 &&
               !(exponent == 0 && fraction <= 0x400000)) {
      want = exponent + 1;
    }
    ASSERT_EQ(oracle::E8m0Up(FloatOf(bits)), want) << std::hex << bits;
  }
  EXPECT_EQ(BitsOf(oracle::E8m0Value(0)), 0x00400000u);
  EXPECT_EQ(BitsOf(oracle::E8m0Value(1)), 0x00800000u);
  EXPECT_EQ(oracle::E8m0Value(127), 1.0f);
  EXPECT_EQ(BitsOf(oracle::E8m0Value(254)), 0x7F000000u);
  EXPECT_TRUE(std::isnan(oracle::E8m0Value(255)));
  for (int i = 0; i < 255; ++i) {
    EXPECT_EQ(oracle::MxMultiplier(i) * oracle::E8m0Value(i), 1.0f) << i;
  }
}

// Computes the rules by frexp instead of bits.
TEST(OracleCodecTest, ScaleRules) {
  const struct {
    Code code;
    int exponent, fraction;
  } kCodes[] = {{Code::kE4m3, 8, 3}, {Code::kE5m2, 15, 2}, {Code::kE2m1, 2, 1}};
  for (const auto& c : kCodes) {
    for (uint64_t i = 0; i < 20000; ++i) {
      uint32_t bits = static_cast<uint32_t>(Mix(i)) & 0x7FFFFFFF;
      if (i % 2) bits &= 0x7FF80000;
      const float b = FloatOf(bits);
      if (!std::isfinite(b) || b < 0x1p-100f) continue;
      int power;
      const double f = 2 * std::frexp(double{b}, &power);  // 1 <= f < 2
      const int floor = power - 1 + 127 - c.exponent;
      const auto rule = [&](ScaleRule r) {
        return oracle::MxScale(b, c.code, r);
      };
      ASSERT_EQ(rule(ScaleRule::kFloor), floor);
      ASSERT_EQ(rule(ScaleRule::kCeil), floor + (f > 1));
      const bool carries = f >= 2 - std::ldexp(1.0, -c.fraction - 1);
      ASSERT_EQ(rule(ScaleRule::kEven), floor + carries) << b;
      // kUp: the smallest scale with which b does not exceed the largest code,
      // up to the rounding of the product.
      const int up = rule(ScaleRule::kUp);
      const double top = oracle::LargestCode(c.code);
      ASSERT_LE(b / std::ldexp(1.0, up - 127), top * (1 + 0x1p-23)) << b;
      ASSERT_GT(b / std::ldexp(1.0, up - 128), top * (1 - 0x1p-23)) << b;
    }
    for (ScaleRule r : {ScaleRule::kUp, ScaleRule::kFloor, ScaleRule::kCeil,
                        ScaleRule::kEven}) {
      EXPECT_EQ(oracle::MxScale(0, c.code, r), 0);
      EXPECT_EQ(oracle::MxScale(1e-45f, c.code, r), 0);
      EXPECT_EQ(oracle::MxScale(INFINITY, c.code, r), 0xFE);
      EXPECT_EQ(oracle::MxScale(NAN, c.code, r), 0xFF);
    }
  }
}

TEST(OracleCodecTest, ScalesOfTensorsAndBlocks) {
  EXPECT_EQ(oracle::CurrentScale(1e-44f, Code::kE4m3, 0, false, 65504.0f),
            65504.0f);
  EXPECT_EQ(oracle::CurrentScale(1e-44f, Code::kE4m3, 0, true, 65504.0f),
            32768.0f);
  EXPECT_EQ(oracle::CurrentScale(0.5f, Code::kE4m3, 7.0f), 64.0f);
  EXPECT_EQ(oracle::CurrentScale(0.0f, Code::kE4m3, 7.0f), 64.0f);
  EXPECT_EQ(oracle::CurrentScale(NAN, Code::kE4m3, 7.0f), 1.0f);
  using oracle::Element;
  EXPECT_EQ(oracle::LargestFinite(Element::kBF16), FloatOf(0x7F7F0000));
  EXPECT_EQ(oracle::LargestFinite(Element::kF16), 65504.0f);
  EXPECT_EQ(BitsOf(oracle::LargestFinite(Element::kF32)), 0x7F7FFFFFu);
}

TEST(OracleCodecTest, RotationsOfEveryDimension) {
  for (int n : {16, 32, 64, 128}) {
    for (uint64_t turn = 0; turn < 50; ++turn) {
      const auto x = oracle::Values(
          oracle::Element::kBF16,
          MakeTensor(oracle::Element::kBF16, n, Flavor::kGaussian, turn));
      const Mask mask = turn == 0 ? oracle::Repeat(0xD7E8)
                                  : Mask(Mix(turn), Mix(turn + 1000));
      auto y = x;
      oracle::Rotate(y.data(), mask, n);
      const auto exact = oracle::RotateExactly(x.data(), mask, n);
      double length = 0;
      double rotated = 0;
      for (int i = 0; i < n; ++i) {
        ASSERT_NEAR(y[i], exact[i], 1e-5) << n;
        length += double{x[i]} * x[i];
        rotated += double{y[i]} * y[i];
      }
      ASSERT_NEAR(rotated, length, length * 1e-5);
      oracle::RotateBack(y.data(), mask, n);
      for (int i = 0; i < n; ++i) ASSERT_NEAR(y[i], x[i], 1e-5) << n;
    }
  }
  EXPECT_THAT(oracle::Repeat(0xD7E8).words,
              ElementsAre(0xD7E8D7E8D7E8D7E8u, 0xD7E8D7E8D7E8D7E8u));
  // Only element 100 is set: every output shows its sign and the factor.
  std::vector<float> unit(128);
  unit[100] = 1;
  oracle::Rotate(unit.data(), Mask(0, uint64_t{1} << 36), 128);
  for (int j = 0; j < 128; ++j) {
    const bool odd = std::popcount(100u & static_cast<unsigned>(j)) % 2 == 1;
    EXPECT_EQ(BitsOf(unit[j]), odd ? 0x3DB504F3u : 0xBDB504F3u);
  }
}

TEST(OracleCodecTest, NoTwoElementsShareARandomByte) {
  for (bool columnwise : {false, true}) {
    const oracle::Randomness r{7, 3, columnwise, 37};
    std::set<std::pair<uint64_t, uint64_t>> places;
    for (int64_t m = 0; m < 40; ++m) {
      for (int64_t k = 0; k < 37; ++k) {
        const uint64_t offset = columnwise ? m / 16 * 37 + k : m * 3 + k / 16;
        const uint64_t index = (columnwise ? m : k) % 16;
        EXPECT_TRUE(places.insert({offset, index}).second);
        const auto words = oracle::Philox(7, columnwise ? 7 : 6, offset);
        EXPECT_EQ(oracle::RandomByte(r, m, k),
                  words[index / 4] >> (8 * (index % 4)) & 0xFF);
      }
    }
  }
}

// The error of a square is the sum of the errors of its 16 rows: the last eight
// are added to the first eight, then of those the last four to the first four,
// and so on. Every row here has the square's maximum, and so its scales.
TEST(OracleCodecTest, ErrorsOfASquareAddUpAsATree) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    auto x = oracle::Values(
        oracle::Element::kF32,
        MakeTensor(oracle::Element::kF32, 256, Flavor::kGaussian, seed));
    for (float& v : x) v = std::clamp(v, -1.5f, 1.5f);
    for (int row = 0; row < 16; ++row) x[16 * row] = 1.5f;
    for (FourOverSix metric : {FourOverSix::kMae, FourOverSix::kMse}) {
      const auto all = oracle::TryFourAndSix(x, 3, oracle::kRange256, metric,
                                             false, Policy::kIgnore);
      float four[16];
      float six[16];
      for (int row = 0; row < 16; ++row) {
        const auto one = oracle::TryFourAndSix(
            {&x[16 * row], &x[16 * row] + 16}, 3, oracle::kRange256, metric,
            false, Policy::kIgnore);
        ASSERT_EQ(one.four.scale.stored, all.four.scale.stored);
        four[row] = one.four.error;
        six[row] = one.six.error;
      }
      const auto fold = [](float* lane) {
        for (int i = 0; i < 8; ++i) lane[i] += lane[i + 8];
        for (int i = 0; i < 4; ++i) lane[i] += lane[i + 4];
        for (int i = 0; i < 2; ++i) lane[i] += lane[i + 2];
        return lane[0] + lane[1];
      };
      EXPECT_EQ(all.four.error, fold(four));
      EXPECT_EQ(all.six.error, fold(six));
      EXPECT_EQ(all.pick_four, all.four.error < all.six.error);
    }
  }
}

TEST(OracleCodecTest, FourOverSixOfNonFiniteBlocks) {
  std::vector<float> x(16, 1.0f);
  x[3] = NAN;
  const auto pick = [&](Policy policy) {
    return oracle::TryFourAndSix(x, 2, oracle::kRange448, FourOverSix::kMae,
                                 false, policy);
  };
  EXPECT_FALSE(pick(Policy::kIgnore).pick_four);
  EXPECT_EQ(pick(Policy::kIgnore).picked().stored, 0x76u);  // 1 / 6 * 1344
  EXPECT_EQ(pick(Policy::kPropagate).picked().stored, 0x7Fu);
  EXPECT_EQ(pick(Policy::kPropagate).picked().multiplier, oracle::kMax);
  x[3] = INFINITY;
  EXPECT_FALSE(pick(Policy::kIgnore).pick_four);
  EXPECT_EQ(pick(Policy::kIgnore).picked().stored, 0x7Eu);
}

}  // namespace
}  // namespace quantd
