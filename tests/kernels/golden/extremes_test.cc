// The results of each format for zeros, the smallest and largest numbers, Inf
// and NaN. Every expectation is derived by hand from kernels/plan/FORMATS.md,
// not with the tested code or the oracle. The oracle is tested as well.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tests/kernels/contract/copy_codes.h"
#include "tests/kernels/golden/golden_subject.h"
#include "tests/testing/matchers.h"

namespace quantd {
namespace {

using oracle::Element;
using oracle::Format;
using oracle::Policy;
using oracle::QuantizeSpec;
using testing::ElementsAre;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kFltMax = std::numeric_limits<float>::max();
constexpr float kLeast = std::numeric_limits<float>::denorm_min();  // 2^-149

// One block of fp32; the values after the given ones are +0.
struct Case {
  const char* name;
  std::vector<Format> formats;
  Policy policy;
  std::vector<float> x;
  std::optional<uint32_t> amax;  // as bits; unset for formats without an amax
  uint32_t scale;                // as stored
  std::vector<uint8_t> codes;    // codes of x
  std::vector<float> decoded;    // decoded values of x
  // The code and the decoded value of the zeros that follow.
  uint8_t rest = 0;
  float rest_decoded = 0;
  std::optional<float> given = {};
};

const std::vector<Format> kNvfp4 = {Format::kNvfp4, Format::kNvfp4Square};
const std::vector<Format> kGivenE4M3 = {Format::kFp8E4M3};
const std::vector<Format> kE4M3 = {Format::kFp8E4M3, Format::kFp8ChannelE4M3};
const std::vector<Format> kE5M2 = {Format::kFp8E5M2};
const std::vector<Format> kTensors = {Format::kFp8E4M3, Format::kFp8E5M2};
const std::vector<Format> kMxE4M3 = {Format::kMxfp8E4M3};
const std::vector<Format> kMxE5M2 = {Format::kMxfp8E5M2};
const std::vector<Format> kMxfp8 = {Format::kMxfp8E4M3, Format::kMxfp8E5M2};
const std::vector<Format> kMxfp4 = {Format::kMxfp4};
const std::vector<Format> kBlockE4M3 = {Format::kFp8BlockE4M3,
                                        Format::kFp8SquareE4M3};
const std::vector<Format> kBlockE5M2 = {Format::kFp8BlockE5M2,
                                        Format::kFp8SquareE5M2};
const std::vector<Format> kBlocks = {
    Format::kFp8BlockE4M3, Format::kFp8SquareE4M3, Format::kFp8BlockE5M2,
    Format::kFp8SquareE5M2};
constexpr auto kIgnore = Policy::kIgnore;
constexpr auto kPropagate = Policy::kPropagate;

// clang-format off
std::vector<Case> Nvfp4Cases() {
  return {
      {"zeros", kNvfp4, kIgnore, {0.0f, -0.0f}, 0, 0x00, {0, 8}, {0.0f, -0.0f}},
      // S = FLT_MAX. b * S / 6 = 8e-8 rounds to a scale of 0.
      {"2^-149", kNvfp4, kIgnore, {kLeast, -kLeast}, 1, 0x00, {0, 8},
       {0.0f, -0.0f}},
      // The scale 5.67e-3 rounds to 3 * 2^-9. The multiplier stops at FLT_MAX,
      // so elements become 0.034.
      {"1e-40", kNvfp4, kIgnore, {1e-40f, -1e-40f}, 0x000116C2, 0x03, {0, 8},
       {0.0f, -0.0f}},
      // The scale 5.67 rounds to 5.5. Elements become 6.19, 3.09 and 1.55, and
      // their codes 6, 3 and 1.5.
      {"1e-37", kNvfp4, kIgnore, {1e-37f, -1e-37f, 5e-38f, 2.5e-38f},
       0x02081CEA, 0x4B, {7, 15, 5, 3},
       {9.697829e-38f, -9.697829e-38f, 4.848915e-38f, 2.424457e-38f}},
      {"3e38", kNvfp4, kIgnore, {3e38f, -3e38f, 1e38f}, 0x7F61B1E6, 0x7E,
       {7, 15, 4}, {3e38f, -3e38f, 1e38f}},
      {"FLT_MAX", kNvfp4, kIgnore, {kFltMax, -kFltMax}, 0x7F7FFFFF, 0x7E,
       {7, 15}, {kFltMax, -kFltMax}},
      // S = 1, scale 448: codes of x / 448.
      {"Inf", kNvfp4, kIgnore, {kInf, -kInf, 500, -3}, 0x7F800000, 0x7E,
       {7, 15, 2, 8}, {2688, -2688, 448, -0.0f}},
      {"Inf, propagate", kNvfp4, kPropagate, {kInf, -3}, 0x7F800000, 0x7E,
       {7, 8}, {2688, -0.0f}},
      // The block is encoded as if NaN were absent: S = 896, 1 / 448 * 896 = 2.
      {"NaN", kNvfp4, kIgnore, {kNan, -3, 1, 0.5f}, 0x40400000, 0x7E,
       {7, 15, 4, 2}, {3, -3, 1, 0.5f}},
      {"NaN only", kNvfp4, kIgnore, std::vector<float>(16, kNan), 0, 0x00,
       std::vector<uint8_t>(16, 7), std::vector<float>(16, 0.0f)},
      {"NaN, propagate", kNvfp4, kPropagate, {kNan, 1, -1, -0.0f}, 0x7FC00000,
       0x7F, {7, 7, 15, 8}, {kNan, kNan, kNan, kNan}, 0, kNan},
      {"NaN, propagate, given amax", kNvfp4, kPropagate, {kNan, 1, -1},
       0x40400000, 0x7F, {7, 7, 15}, {kNan, kNan, kNan}, 0, kNan, 3.0f},
      // S = 1: the scale 8 / 6 is 1.375, under which 1 and -2 are 0.73 and
      // -1.45. But an amax of 0 decodes to zeros.
      {"given 0", kNvfp4, kIgnore, {1, -2, 0.5f, 8}, 0, 0x3B, {1, 11, 1, 7},
       {0.0f, -0.0f, 0.0f, 0.0f}, 0, 0, 0.0f},
      {"far below a given 3e38", kNvfp4, kIgnore, {1, -1}, 0x7F61B1E6, 0x00,
       {7, 15}, {0.0f, -0.0f}, 0, 0, 3e38f},
      // The scale saturates at 448 and the codes at 6: 448 / 2688 * 6 = 1.
      {"far above a given 1", kNvfp4, kIgnore, {3e38f, -1, 0.5f}, 0x3F800000,
       0x7E, {7, 15, 5}, {1, -1, 0.5f}, 0, 0, 1.0f},
  };
}

std::vector<Case> TensorCases() {
  return {
      {"zeros", kTensors, kIgnore, {0.0f, -0.0f}, 0, 0x3F800000, {0, 0x80},
       {0.0f, -0.0f}},
      // The scale, FLT_MAX, turns 1e-40 into 0.034. Its inverse is 2^-128.
      {"1e-40", kE4M3, kIgnore, {1e-40f, -1e-40f}, 0x000116C2, 0x00200000,
       {0x11, 0x91}, {9 * 0x1p-136f, -9 * 0x1p-136f}},
      {"1e-40", kE5M2, kIgnore, {1e-40f, -1e-40f}, 0x000116C2, 0x00200000,
       {0x28, 0xA8}, {0x1p-133f, -0x1p-133f}},
      {"2^-149", kTensors, kIgnore, {kLeast, -kLeast}, 1, 0x00200000, {0, 0x80},
       {0.0f, -0.0f}},
      {"FLT_MAX", kE4M3, kIgnore, {kFltMax, -kFltMax, 1}, 0x7F7FFFFF,
       0x7B124924, {0x7E, 0xFE, 0}, {kFltMax, -kFltMax, 0.0f}},
      {"3e38", kE5M2, kIgnore, {3e38f, -3e38f}, 0x7F61B1E6, 0x7780F7F1,
       {0x7B, 0xFB}, {3e38f, -3e38f}},
      {"Inf", kE4M3, kIgnore, {kInf, 3, -kInf}, 0x7F800000, 0x3F800000,
       {0x7E, 0x44, 0xFE}, {448, 3, -448}},
      {"Inf", kE5M2, kIgnore, {kInf, 3, -kInf}, 0x7F800000, 0x3F800000,
       {0x7B, 0x42, 0xFB}, {57344, 3, -57344}},
      {"NaN", kE4M3, kIgnore, {-kNan, 448}, 0x43E00000, 0x3F800000,
       {0x7F, 0x7E}, {kNan, 448}},
      {"NaN", kE5M2, kIgnore, {-kNan, 448}, 0x43E00000, 0x3C000000,
       {0x7F, 0x7B}, {kNan, 448}},
      {"NaN only", kTensors, kIgnore, std::vector<float>(8, kNan), 0,
       0x3F800000, std::vector<uint8_t>(8, 0x7F), std::vector<float>(8, kNan)},
      {"NaN, propagate", kE4M3, kPropagate, {kNan, 3}, 0x7FC00000, 0x3F800000,
       {0x7F, 0x44}, {kNan, 3}},
      {"given 0", kGivenE4M3, kIgnore, {1000, -3}, 0, 0x3F800000, {0x7E, 0xC4},
       {448, -3}, 0, 0, 0.0f},
      // The scale is FLT_MAX, so 1 saturates.
      {"given 2^-149", kGivenE4M3, kIgnore, {1, -1}, 1, 0x00200000, {0x7E, 0xFE},
       {448 * 0x1p-128f, -448 * 0x1p-128f}, 0, 0, kLeast},
  };
}

std::vector<Case> MxCases() {
  return {
      {"zeros", kMxfp8, kIgnore, {0.0f, -0.0f}, {}, 0x00, {0, 0x80},
       {0.0f, -0.0f}},
      {"zeros", kMxfp4, kIgnore, {0.0f, -0.0f}, {}, 0x00, {0, 8},
       {0.0f, -0.0f}},
      {"2^-149", kMxfp8, kIgnore, {kLeast, -kLeast}, {}, 0x00, {0, 0x80},
       {0.0f, -0.0f}},
      // The smallest scale is 2^-127, which turns 1e-40 into 0.017.
      {"1e-40", kMxE4M3, kIgnore, {1e-40f, -1e-40f}, {}, 0x00, {0x09, 0x89},
       {9 * 0x1p-136f, -9 * 0x1p-136f}},
      {"1e-40", kMxE5M2, kIgnore, {1e-40f, -1e-40f}, {}, 0x00, {0x24, 0xA4},
       {0x1p-133f, -0x1p-133f}},
      {"1e-40", kMxfp4, kIgnore, {1e-40f, -1e-40f}, {}, 0x00, {0, 8},
       {0.0f, -0.0f}},
      // The scales are 2^120, 2^113 and 2^125.
      {"3e38", kMxE4M3, kIgnore, {3e38f, -3e38f}, {}, 0xF7, {0x76, 0xF6},
       {0x1.Cp127f, -0x1.Cp127f}},
      {"3e38", kMxE5M2, kIgnore, {3e38f, -3e38f}, {}, 0xF0, {0x77, 0xF7},
       {0x1.Cp127f, -0x1.Cp127f}},
      {"2.5e38", kMxfp4, kIgnore, {2.5e38f, -2.5e38f}, {}, 0xFC, {7, 15},
       {0x1.8p127f, -0x1.8p127f}},
      // Rounding to nearest gives 2^128, which fp32 cannot represent: Inf.
      {"FLT_MAX", kMxE4M3, kIgnore, {kFltMax, -kFltMax}, {}, 0xF7, {0x78, 0xF8},
       {kInf, -kInf}},
      {"3e38", kMxfp4, kIgnore, {3e38f, -3e38f}, {}, 0xFD, {6, 14},
       {kInf, -kInf}},
      {"Inf", kMxE4M3, kIgnore, {kInf, 1, -kInf}, {}, 0xFE, {0x7E, 0, 0xFE},
       {kInf, 0.0f, -kInf}},
      {"Inf", kMxE5M2, kIgnore, {kInf, 1, -kInf}, {}, 0xFE, {0x7B, 0, 0xFB},
       {kInf, 0.0f, -kInf}},
      {"Inf", kMxfp4, kIgnore, {kInf, 1, -kInf}, {}, 0xFE, {7, 0, 15},
       {kInf, 0.0f, -kInf}},
      // The scales 2^-8, 2^-15 and 2^-2 are just above 1 / 448, 1 / 57344 and
      // 1 / 6.
      {"NaN", kMxE4M3, kIgnore, {-kNan, 1}, {}, 0x77, {0x7F, 0x78}, {kNan, 1}},
      {"NaN", kMxE5M2, kIgnore, {-kNan, 1}, {}, 0x70, {0x7F, 0x78}, {kNan, 1}},
      {"NaN", kMxfp4, kIgnore, {-kNan, 1}, {}, 0x7D, {7, 6}, {1.5f, 1}},
      {"NaN only", kMxfp8, kIgnore, std::vector<float>(32, kNan), {}, 0x00,
       std::vector<uint8_t>(32, 0x7F), std::vector<float>(32, kNan)},
      {"NaN, propagate", kMxfp8, kPropagate, {kNan, 1, -1}, {}, 0xFF,
       {0x7F, 0x7F, 0x7F}, {kNan, kNan, kNan}, 0x7F, kNan},
      {"NaN, propagate", kMxfp4, kPropagate, {kNan, 1, -1}, {}, 0xFF, {7, 7, 7},
       {kNan, kNan, kNan}, 7, kNan},
  };
}

// Scales are powers of two by default.
std::vector<Case> BlockCases() {
  return {
      {"zeros", kBlocks, kIgnore, {0.0f, -0.0f}, {}, 0x3F800000, {0, 0x80},
       {0.0f, -0.0f}},
      {"2^-149", kBlocks, kIgnore, {kLeast, -kLeast}, {}, 0x00400000, {0, 0x80},
       {0.0f, -0.0f}},
      // The scale FLT_MAX is cut to 2^127; its inverse is stored.
      {"1e-40", kBlockE4M3, kIgnore, {1e-40f, -1e-40f}, {}, 0x00400000,
       {0x09, 0x89}, {9 * 0x1p-136f, -9 * 0x1p-136f}},
      {"1e-40", kBlockE5M2, kIgnore, {1e-40f, -1e-40f}, {}, 0x00400000,
       {0x24, 0xA4}, {0x1p-133f, -0x1p-133f}},
      {"3e38", kBlockE4M3, kIgnore, {3e38f, -3e38f}, {}, 0x7B800000,
       {0x76, 0xF6}, {0x1.Cp127f, -0x1.Cp127f}},
      {"3e38", kBlockE5M2, kIgnore, {3e38f, -3e38f}, {}, 0x78000000,
       {0x77, 0xF7}, {0x1.Cp127f, -0x1.Cp127f}},
      {"Inf", kBlockE4M3, kIgnore, {kInf, 3, -kInf}, {}, 0x3F800000,
       {0x7E, 0x44, 0xFE}, {448, 3, -448}},
      {"Inf", kBlockE5M2, kIgnore, {kInf, 3, -kInf}, {}, 0x3F800000,
       {0x7B, 0x42, 0xFB}, {57344, 3, -57344}},
      {"NaN", kBlockE4M3, kIgnore, {-kNan, 1}, {}, 0x3B800000, {0x7F, 0x78},
       {kNan, 1}},
      {"NaN", kBlockE5M2, kIgnore, {-kNan, 1}, {}, 0x38000000, {0x7F, 0x78},
       {kNan, 1}},
      {"NaN only", kBlocks, kIgnore, std::vector<float>(128, kNan), {},
       0x3F800000, std::vector<uint8_t>(128, 0x7F),
       std::vector<float>(128, kNan)},
      {"NaN, propagate", kBlocks, kPropagate, {kNan, 1, -1}, {}, 0x7FC00000,
       {0x7F, 0x7F, 0x7F}, {kNan, kNan, kNan}, 0x7F, kNan},
  };
}
// clang-format on

class ExtremesTest : public GoldenTest {
 protected:
  void Run(const std::vector<Case>& cases) {
    for (const Case& c : cases) {
      for (Format f : c.formats) {
        for (bool columnwise : {false, true}) {
          SCOPED_TRACE(std::string(c.name) + ", format " +
                       std::to_string(static_cast<int>(f)) +
                       (columnwise ? ", columnwise" : ", rowwise"));
          Run(c, f, columnwise);
        }
      }
    }
  }

 private:
  void Run(const Case& c, Format f, bool columnwise) {
    const bool whole = oracle::IsTensor(f) || oracle::IsChannel(f);
    const int64_t n = whole ? 8 : oracle::BlockOf(f);
    QuantizeSpec spec;
    spec.format = f;
    spec.rows = columnwise ? n : 1;
    spec.cols = columnwise ? 1 : n;
    spec.rowwise = !columnwise;
    spec.columnwise = columnwise;
    spec.policy = c.policy;
    if (c.given) spec.row_amax = {*c.given};
    std::vector<float> x = c.x;
    x.resize(n);
    const auto q =
        subject_->Quantize(spec, oracle::FromValues(Element::kF32, x));
    const auto& copy = columnwise ? q.columnwise : q.rowwise;
    if (c.amax) {
      ASSERT_EQ(copy.amax.size(), 1u);
      EXPECT_EQ(std::bit_cast<uint32_t>(copy.amax[0]), *c.amax) << copy.amax[0];
    } else {
      EXPECT_TRUE(copy.amax.empty());
    }
    ASSERT_FALSE(copy.data.empty());
    const CopyCodes got = CodesOf(spec, columnwise, copy);
    EXPECT_THAT(got.scales, ElementsAre(c.scale))
        << "expected " << std::hex << c.scale << ", got " << got.scales.at(0);
    std::vector<uint8_t> codes = c.codes;
    codes.resize(n, c.rest);
    EXPECT_EQ(got.codes, codes);

    oracle::DequantizeSpec back;
    back.rows = spec.rows;
    back.cols = spec.cols;
    back.columnwise = columnwise;
    back.format = f;
    const auto decoded =
        oracle::Values(Element::kF32, subject_->Dequantize(back, copy));
    std::vector<float> want = c.decoded;
    want.resize(n, c.rest_decoded);
    ASSERT_EQ(decoded.size(), want.size());
    for (int64_t i = 0; i < n; ++i) ExpectNear(decoded[i], want[i]);
  }

  // Zeros with their sign, Inf and NaN must be equal; other numbers agree to
  // six digits.
  static void ExpectNear(float got, float want) {
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << got;
    } else if (want == 0 || std::isinf(want)) {
      EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want))
          << got;
    } else {
      EXPECT_LE(std::fabs(got / want - 1), 1e-6f) << got << " for " << want;
    }
  }
};

TEST_P(ExtremesTest, Nvfp4) { Run(Nvfp4Cases()); }
TEST_P(ExtremesTest, Fp8Tensors) { Run(TensorCases()); }
TEST_P(ExtremesTest, Mx) { Run(MxCases()); }
TEST_P(ExtremesTest, Fp8Blocks) { Run(BlockCases()); }

INSTANTIATE_TEST_SUITE_P(, ExtremesTest, testing::ValuesIn(Subjects()),
                         SubjectName);

}  // namespace
}  // namespace quantd
