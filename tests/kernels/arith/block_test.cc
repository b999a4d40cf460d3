// Single blocks of NVFP4: golden rows with intermediate values that no API
// returns, and rows that no request can produce.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

#include "kernels/arith/nvfp4.h"
#include "tests/oracle/oracle.h"
#include "tests/testing/golden.h"
#include "tests/testing/tensors.h"

namespace quantd {
namespace {

using oracle::Element;
using L = Scalar;

uint32_t BitsOf(float x) { return std::bit_cast<uint32_t>(x); }

// The result of the tested encoder in the oracle's types.
oracle::Block Encode(const float* x, float amax, bool propagate) {
  float v[16];
  std::copy(x, x + 16, v);
  const Nvfp4Encode global = MakeNvfp4Encode(amax, kNvfp4Range448);
  const auto block = EncodeNvfp4<L>(v, MaxMagnitude<L>(v), global, propagate);
  oracle::Block out;
  out.scale = static_cast<uint8_t>(block.scale);
  out.multiplier = Nvfp4Multiplier<L>(block.scale, global.s_dec);
  for (int i = 0; i < 16; ++i) {
    out.codes[i] = (i < 8 ? block.low : block.high) >> (4 * (i % 8)) & 0xF;
  }
  return out;
}

// Checks every block of a golden row against `encode`.
template <typename F>
void ExpectGolden(const std::string& name, const nlohmann::json& row,
                  F encode) {
  SCOPED_TRACE(name);
  const auto x =
      oracle::Values(Element::kBF16, GoldenTensor(Element::kBF16, row["x"]));
  const auto bytes = GoldenBytes(row["bytes"]);
  for (size_t b = 0; b < x.size() / 16; ++b) {
    const oracle::Block block = encode(&x[16 * b]);
    EXPECT_EQ(block.scale, row["sf"][b].get<int>());
    if (row.contains("mult")) {
      const auto& m = row["mult"].is_array() ? row["mult"][b] : row["mult"];
      EXPECT_EQ(BitsOf(block.multiplier), m.get<uint32_t>());
    }
    for (int i = 0; i < 16; ++i) {
      EXPECT_EQ(block.codes[i], bytes[8 * b + i / 2] >> (i % 2 * 4) & 0xF)
          << "element " << i;
    }
  }
}

void ExpectGoldenOfBoth(const std::string& name, const nlohmann::json& row) {
  const float amax = GoldenFloat(row["amax"]);
  const auto s = row["S_enc"].get<uint32_t>();
  EXPECT_EQ(BitsOf(Nvfp4EncodeScale<L>(amax, kNvfp4Range448)), s) << name;
  EXPECT_EQ(BitsOf(oracle::EncodeScale(amax)), s) << name;
  ExpectGolden(name + ", product", row, [&](const float* x) {
    return Encode(x, amax, /*propagate=*/false);
  });
  ExpectGolden(name + ", oracle", row, [&](const float* x) {
    return oracle::EncodeBlock(x, oracle::EncodeScale(amax),
                               oracle::Policy::kIgnore);
  });
}

TEST(BlockTest, Gv2AndGv2bScalesAndMultipliers) {
  ExpectGoldenOfBoth("GV2", Golden()["GV2"]);
  ExpectGoldenOfBoth("GV2b", Golden()["GV2b"]);
}

TEST(BlockTest, Gv3EveryRow) {
  int rows = 0;
  for (const auto& [name, row] : Golden()["GV3"].items()) {
    ExpectGoldenOfBoth(name, row);
    ++rows;
  }
  EXPECT_EQ(rows, 8);
}

TEST(BlockTest, Gv9Multiplier) {
  const auto& mu = Golden()["GV9"]["examples"]["mu"];
  const auto number = [&](int i) {
    return static_cast<uint32_t>(
        std::stoul(mu[i].get<std::string>(), nullptr, 16));
  };
  float x[16] = {oracle::ElementValue(Element::kBF16, number(1))};
  const float amax = oracle::ElementValue(Element::kBF16, number(0));
  EXPECT_EQ(BitsOf(Encode(x, amax, false).multiplier), number(2));
  EXPECT_EQ(BitsOf(oracle::EncodeBlock(x, oracle::EncodeScale(amax),
                                       oracle::Policy::kIgnore)
                       .multiplier),
            number(2));
}

TEST(BlockTest, EncodeScalesAgreeEverywhere) {
  for (uint32_t high = 0; high < 0x8000; ++high) {
    for (uint32_t low : {0u, 1u, 0x8000u, 0xFFFFu}) {
      const auto amax = std::bit_cast<float>(high << 16 | low);
      ASSERT_EQ(BitsOf(Nvfp4EncodeScale<L>(amax, kNvfp4Range448)),
                BitsOf(oracle::EncodeScale(amax)))
          << amax;
      for (uint8_t scale : {0x00, 0x01, 0x38, 0x7E}) {
        const auto d = MakeNvfp4Decode<L>(amax, kNvfp4Range448);
        const float got = Nvfp4Factor<L>(scale, d);
        const float want = oracle::DecodeFactor(scale, amax);
        if (std::isnan(want)) {
          ASSERT_TRUE(std::isnan(got)) << amax;
        } else {
          ASSERT_EQ(BitsOf(got), BitsOf(want)) << amax << " " << int{scale};
        }
      }
    }
  }
}

TEST(BlockTest, EncodesAndDecodesAsTheOracleDoes) {
  for (Flavor f : kFlavors) {
    const auto x =
        oracle::Values(Element::kF32, MakeTensor(Element::kF32, 64000, f, 4));
    for (size_t b = 0; b < x.size() / 16; ++b) {
      const float* v = &x[16 * b];
      const bool propagate = b % 2;
      const float amax = b % 5 ? std::ldexp(1.5f, int(Mix(b) % 250) - 125)
                               : std::fabs(v[b % 16]);
      const auto want = oracle::EncodeBlock(
          v, oracle::EncodeScale(amax),
          propagate ? oracle::Policy::kPropagate : oracle::Policy::kIgnore);
      const auto got = Encode(v, amax, propagate);
      ASSERT_EQ(got.scale, want.scale) << Name(f) << " block " << b;
      ASSERT_EQ(BitsOf(got.multiplier), BitsOf(want.multiplier)) << Name(f);
      ASSERT_EQ(got.codes, want.codes) << Name(f) << " block " << b;

      Nvfp4Block<L> block = {0, 0, got.scale};
      for (int i = 0; i < 16; ++i) {
        (i < 8 ? block.low : block.high) |= uint32_t{got.codes[i]}
                                            << (4 * (i % 8));
      }
      float decoded[16];
      DecodeNvfp4<L>(block, MakeNvfp4Decode<L>(amax, kNvfp4Range448), decoded);
      const float factor = oracle::DecodeFactor(got.scale, amax);
      for (int i = 0; i < 16; ++i) {
        const float value = oracle::E2m1Value(got.codes[i]) * factor;
        if (std::isnan(value)) {
          ASSERT_TRUE(std::isnan(decoded[i]));
        } else {
          ASSERT_EQ(BitsOf(decoded[i]), BitsOf(value));
        }
      }
    }
  }
}

// The rounded maximum equals the maximum of the rounded values.
TEST(BlockTest, MaximumOfRotatedBlocks) {
  for (Flavor f : kFlavors) {
    const auto x =
        oracle::Values(Element::kBF16, MakeTensor(Element::kBF16, 32000, f, 5));
    float signs[16];
    for (int i = 0; i < 16; ++i) signs[i] = 0xD7E8 >> i & 1 ? -0.25f : 0.25f;
    for (size_t b = 0; b < x.size() / 16; ++b) {
      float v[16];
      std::copy(&x[16 * b], &x[16 * b] + 16, v);
      const uint32_t max = RotateToBf16<L>(v, signs);
      float largest = 0;
      bool nan = false;
      for (float y : v) {
        nan |= std::isnan(y);
        if (!std::isnan(y)) largest = std::max(largest, std::fabs(y));
        if (!std::isnan(y)) {
          ASSERT_EQ(BitsOf(y) & 0xFFFF, 0u);
        }
      }
      ASSERT_EQ(max > kInfBits, nan) << Name(f);
      if (!nan) {
        ASSERT_EQ(max, BitsOf(largest)) << Name(f);
      }
      ASSERT_EQ(MaxNumber<L>(v), BitsOf(largest)) << Name(f);
    }
  }
}

}  // namespace
}  // namespace quantd
