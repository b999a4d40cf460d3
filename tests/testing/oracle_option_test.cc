// Compares options of the oracle's Quantize with values computed by hand or in
// a simpler way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "tests/oracle/oracle.h"
#include "tests/testing/golden.h"
#include "tests/testing/matchers.h"
#include "tests/testing/tensors.h"

namespace quantd {
namespace {

using oracle::Bytes;
using oracle::Element;
using oracle::Format;
using oracle::QuantizeSpec;
using testing::ElementsAre;

constexpr uint16_t kMask = 0xD7E8;

// The random bytes of a rotated block continue beyond the last row, and a block
// that starts inside a run of 16 rows takes bytes of two runs.
TEST(OracleOptionTest, StochasticColumnsFromAnOddRow) {
  const auto x = oracle::Values(
      Element::kF32, MakeTensor(Element::kF32, 20, Flavor::kGaussian, 8));
  QuantizeSpec spec;
  spec.rows = 20;
  spec.cols = 1;
  spec.rowwise = false;
  spec.columnwise = true;
  spec.rotate_columns = true;
  spec.mask = kMask;
  spec.dimension = 32;
  spec.stochastic = true;
  spec.seed = 5;
  spec.seed_offset = 2;
  spec.row_offset = 7;
  spec.column_offset = 3;
  spec.total_columns = 10;
  const auto copy =
      oracle::Quantize(spec, oracle::FromValues(Element::kF32, x)).columnwise;
  std::vector<float> y = x;
  y.resize(32);
  oracle::Rotate(y.data(), kMask, 32);
  for (float& v : y) v = oracle::RoundTo(Element::kBF16, v);
  const float s = oracle::EncodeScale(copy.amax.at(0));
  Bytes want(16);
  for (int i = 0; i < 32; ++i) {
    const auto block = oracle::EncodeBlock(&y[i / 16 * 16], s, spec.policy);
    EXPECT_EQ(copy.scale[i / 16], block.scale);
    const int m = 7 + i;
    const auto words = oracle::Philox(5, 5, m / 16 * 10 + 3);
    const uint8_t byte = words[m % 16 / 4] >> (m % 4 * 8);
    want[i / 2] |=
        oracle::StochasticE2m1Code(oracle::Mul(y[i], block.multiplier), byte)
        << (i % 2 * 4);
  }
  EXPECT_TRUE(BytesEq("codes", want, copy.data));
}

TEST(OracleOptionTest, DbiasAddsUpChunks) {
  QuantizeSpec spec;
  spec.format = Format::kFp8E4M3;
  spec.rows = 300;
  spec.cols = 2;
  spec.dbias = Element::kF32;
  std::vector<float> x(600, 1);
  x[0] = 0x1p24f;  // too large for the ones of its chunk to change it
  x[2 * 299 + 1] = -0.0f;
  const auto sums = [&] {
    return oracle::Values(
        Element::kF32,
        oracle::Quantize(spec, oracle::FromValues(Element::kF32, x)).dbias);
  };
  EXPECT_THAT(sums(), ElementsAre(0x1p24f + 128 + 44, 299));
  spec.splits = {1, 0, 299};
  EXPECT_THAT(sums(), ElementsAre(0x1p24f, 1, 0, 0, 299, 298));
  spec.splits = {};
  spec.dbias = Element::kF16;
  EXPECT_THAT(
      oracle::Quantize(spec, oracle::FromValues(Element::kF32, x)).dbias,
      ElementsAre(0x00, 0x7C, 0xAC, 0x5C));  // Inf, 299
}

// Squares are zero beyond the matrix: one that extends beyond it has the codes
// and scale that it has if the matrix is padded with zeros.
TEST(OracleOptionTest, RaggedSquaresOfFourOverSix) {
  QuantizeSpec ragged;
  ragged.format = Format::kNvfp4Square;
  ragged.rows = 21;
  ragged.cols = 37;
  ragged.rowwise = false;
  ragged.columnwise = true;
  ragged.compact = true;
  ragged.four_over_six = oracle::FourOverSix::kMae;
  const auto x = oracle::Values(
      Element::kF32, MakeTensor(Element::kF32, 21 * 37, Flavor::kGaussian, 13));
  std::vector<float> wide(32 * 48);
  for (int64_t i = 0; i < 21 * 37; ++i) wide[i / 37 * 48 + i % 37] = x[i];
  QuantizeSpec whole = ragged;
  whole.rows = 32;
  whole.cols = 48;
  const auto got =
      oracle::Quantize(ragged, oracle::FromValues(Element::kF32, x));
  const auto want =
      oracle::Quantize(whole, oracle::FromValues(Element::kF32, wide));
  EXPECT_TRUE(BytesEq("scale", want.columnwise.scale, got.columnwise.scale));
  EXPECT_TRUE(BytesEq("data",
                      Bytes(want.columnwise.data.begin(),
                            want.columnwise.data.begin() + 37 * 16),
                      got.columnwise.data));
}

// The NaN scale of a block of MXFP4 sets no codes beyond the last element.
TEST(OracleOptionTest, PaddingOfANaNBlock) {
  QuantizeSpec spec;
  spec.format = Format::kMxfp4;
  spec.rows = 2;
  spec.cols = 1;
  spec.rowwise = false;
  spec.columnwise = true;
  spec.policy = oracle::Policy::kPropagate;
  const auto q =
      oracle::Quantize(spec, oracle::FromValues(Element::kF32, {NAN, 1}));
  Bytes want(16);
  want[0] = 0x77;
  EXPECT_TRUE(BytesEq("data", want, q.columnwise.data));
  EXPECT_EQ(q.columnwise.scale[0], 0xFF);
}

}  // namespace
}  // namespace quantd
