// Compares the oracle with independent arithmetic.
#include "tests/oracle/oracle.h"

#include <gtest/gtest.h>

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
    // All exponents, with half of the values between 2^-31 and 2.
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

}  // namespace
}  // namespace quantd
