// Rules of the oracle that decide no byte of the contract's tensors.
#include "tests/oracle/oracle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "tests/testing/tensors.h"

namespace quantd {
namespace {

using oracle::Code;
using oracle::Element;
using oracle::FourOverSix;
using oracle::Policy;

float FloatOf(uint32_t bits) { return std::bit_cast<float>(bits); }
uint32_t BitsOf(float v) { return std::bit_cast<uint32_t>(v); }

TEST(OracleTest, ScalesOfTensorsAndBlocks) {
  EXPECT_EQ(oracle::CurrentScale(1e-44f, Code::kE4m3, 0, false, 65504.0f),
            65504.0f);
  EXPECT_EQ(oracle::CurrentScale(1e-44f, Code::kE4m3, 0, true, 65504.0f),
            32768.0f);
  EXPECT_EQ(oracle::CurrentScale(0.5f, Code::kE4m3, 7.0f), 64.0f);
  EXPECT_EQ(oracle::CurrentScale(0.0f, Code::kE4m3, 7.0f), 64.0f);
  EXPECT_EQ(oracle::CurrentScale(NAN, Code::kE4m3, 7.0f), 1.0f);
  EXPECT_EQ(oracle::LargestFinite(Element::kBF16), FloatOf(0x7F7F0000));
  EXPECT_EQ(oracle::LargestFinite(Element::kF16), 65504.0f);
  EXPECT_EQ(BitsOf(oracle::LargestFinite(Element::kF32)), 0x7F7FFFFFu);
}

// The error of a square is the sum of the errors of its 16 rows: the last eight
// are added to the first eight, then of those the last four to the first four,
// and so on. Every row here has the square's maximum, and so its scales.
TEST(OracleTest, ErrorsOfASquareAddUpAsATree) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    auto x = oracle::Values(
        Element::kF32, MakeTensor(Element::kF32, 256, Flavor::kGaussian, seed));
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

}  // namespace
}  // namespace quantd
