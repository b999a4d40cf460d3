// Compares the oracle with independent arithmetic.
#include "tests/oracle/oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "tests/testing/tensors.h"

namespace quantd {
namespace {

using oracle::Element;

float FloatOf(uint32_t bits) { return std::bit_cast<float>(bits); }

TEST(OracleTest, Bf16IsTheUpperHalfOfFp32) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const float v = oracle::ElementValue(Element::kBF16, i);
    if (std::isnan(FloatOf(i << 16))) {
      ASSERT_TRUE(std::isnan(v)) << i;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(v), i << 16);
      ASSERT_EQ(oracle::ElementBits(Element::kBF16, v), i);
    }
  }
}

TEST(OracleTest, Bf16RoundsToNearestEven) {
  for (uint64_t i = 0; i < 200000; ++i) {
    const auto bits = static_cast<uint32_t>(Mix(i));
    if (std::isnan(FloatOf(bits))) continue;
    const uint32_t low = bits & 0xFFFF;
    const uint32_t high = bits >> 16;
    const uint32_t up = low > 0x8000 || (low == 0x8000 && high % 2 == 1);
    ASSERT_EQ(oracle::ElementBits(Element::kBF16, FloatOf(bits)), high + up)
        << std::hex << bits;
  }
}

// GCC's half type is a third implementation.
TEST(OracleTest, F16IsTheCompilersHalf) {
  for (uint32_t i = 0; i < 0x10000; ++i) {
    const auto half = std::bit_cast<_Float16>(static_cast<uint16_t>(i));
    const float v = oracle::ElementValue(Element::kF16, i);
    if (std::isnan(static_cast<float>(half))) {
      ASSERT_TRUE(std::isnan(v)) << i;
      continue;
    }
    ASSERT_EQ(std::bit_cast<uint32_t>(v),
              std::bit_cast<uint32_t>(static_cast<float>(half)));
    ASSERT_EQ(oracle::ElementBits(Element::kF16, v), i);
  }
  for (uint64_t i = 0; i < 400000; ++i) {
    // All exponents, with half of the values in fp16's range.
    uint32_t bits = static_cast<uint32_t>(Mix(i));
    if (i % 2) bits = (bits & 0x8FFFFFFF) | 0x30000000;
    const float x = FloatOf(bits);
    if (std::isnan(x)) continue;
    ASSERT_EQ(oracle::ElementBits(Element::kF16, x),
              std::bit_cast<uint16_t>(static_cast<_Float16>(x)))
        << std::hex << bits;
  }
}

TEST(OracleTest, CodesOfE4m3) {
  EXPECT_EQ(oracle::E4m3Value(0x01), 0x1p-9f);
  EXPECT_EQ(oracle::E4m3Value(0x08), 0x1p-6f);
  EXPECT_EQ(oracle::E4m3Value(0x38), 1.0f);
  EXPECT_EQ(oracle::E4m3Value(0x7E), 448.0f);
  EXPECT_EQ(oracle::E4m3Value(0xFE), -448.0f);
  EXPECT_TRUE(std::isnan(oracle::E4m3Value(0x7F)));
  EXPECT_EQ(oracle::E4m3Code(0x1p-10f), 0);  // a tie
  EXPECT_EQ(oracle::E4m3Code(std::nextafter(0x1p-10f, 1.0f)), 1);
  EXPECT_EQ(oracle::E4m3Code(INFINITY), 0x7E);
  EXPECT_EQ(oracle::E4m3Code(-0.0f), 0x80);
  EXPECT_EQ(oracle::E4m3Code(NAN), 0x7F);
  for (int i = 0; i < 0x7F; ++i) {
    EXPECT_EQ(oracle::E4m3Code(oracle::E4m3Value(i)), i);
    if (i == 0x7E) continue;
    const float middle = (oracle::E4m3Value(i) + oracle::E4m3Value(i + 1)) / 2;
    EXPECT_EQ(oracle::E4m3Code(middle), i % 2 ? i + 1 : i);
  }
}

TEST(OracleTest, CodesOfE2m1) {
  const struct {
    float x;
    uint8_t code;
  } kCases[] = {{0.25f, 0}, {0.75f, 2}, {1.25f, 2},  {1.75f, 4},
                {2.5f, 4},  {3.5f, 6},  {5.0f, 6},   {-0.0f, 8},
                {-0.2f, 8}, {7.0f, 7},  {-1e9f, 15}, {NAN, 7},
                {-NAN, 7},  {0.26f, 1}, {5.1f, 7},   {INFINITY, 7}};
  for (const auto& c : kCases) EXPECT_EQ(oracle::E2m1Code(c.x), c.code) << c.x;
}

// The specification fixes the order of additions; the result approximates the
// exact sum.
TEST(OracleTest, ButterflyIsTheExactSumWhereTheSpreadIsSmall) {
  int64_t wide = 0;
  for (uint64_t b = 0; b < 20000; ++b) {
    const Flavor flavor = b % 2 ? Flavor::kSpread : Flavor::kGaussian;
    const auto x = oracle::Values(Element::kBF16,
                                  MakeTensor(Element::kBF16, 16, flavor, b));
    float smallest = INFINITY;
    float largest = 0;
    for (float v : x) {
      largest = std::max(largest, std::fabs(v));
      if (v != 0) smallest = std::min(smallest, std::fabs(v));
    }
    // Scaling by 1/4 must be exact, and nothing may overflow.
    if (smallest < 0x1p-100f || largest > 0x1p100f) continue;
    const auto mask = static_cast<uint16_t>(Mix(b));
    auto y = x;
    oracle::Rotate(y.data(), mask);
    const auto exact = oracle::RotateExactly(x.data(), mask);
    for (int i = 0; i < 16; ++i) {
      if (largest <= smallest * 0x1p12f) {
        ASSERT_EQ(y[i], exact[i]) << "block " << b << " element " << i;
      } else {
        ++wide;
        ASSERT_NEAR(y[i], exact[i], largest * 0x1p-20f) << "block " << b;
      }
    }
    oracle::RotateBack(y.data(), mask);
    for (int i = 0; i < 16; ++i) {
      ASSERT_NEAR(y[i], x[i], largest * 0x1p-20f) << "block " << b;
    }
  }
  EXPECT_GT(wide, 1000);
}

TEST(OracleTest, TensorsContainTheValuesOfTheirFlavor) {
  for (Element e : {Element::kF32, Element::kF16, Element::kBF16}) {
    for (Flavor f : kFlavors) {
      const auto x = oracle::Values(e, MakeTensor(e, 4096, f, 1));
      const bool finite = std::all_of(x.begin(), x.end(),
                                      [](float v) { return std::isfinite(v); });
      EXPECT_EQ(finite, f != Flavor::kNonFinite && f != Flavor::kRaw)
          << Name(f);
      EXPECT_NE(MakeTensor(e, 4096, f, 1), MakeTensor(e, 4096, f, 2));
      if (f == Flavor::kNonFinite) {
        EXPECT_TRUE(std::isnan(x[3]));
        EXPECT_EQ(x[17], INFINITY);
      }
      if (f == Flavor::kNasty) {
        EXPECT_TRUE(std::any_of(x.begin(), x.end(), [](float v) {
          return v == 0 && std::signbit(v);
        }));
      }
    }
  }
}

TEST(OracleTest, ShapesMatchTheirMatrices) {
  int64_t whole = 0;
  for (const auto& s : WholeShapes()) {
    EXPECT_EQ(s.cols % 16, 0) << ToString(s);
    whole += s.rows * s.cols;
  }
  EXPECT_GE(whole, 200000);
  for (const auto& s : RaggedShapes()) EXPECT_NE(s.cols % 16, 0);
}

}  // namespace
}  // namespace quantd
