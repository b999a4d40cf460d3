// Compares each option of the oracle's Quantize with something simpler.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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

// Rows [first, first + count) of a matrix in fp32.
Bytes Rows(const Bytes& x, int64_t cols, int64_t first, int64_t count) {
  const auto start = x.begin() + first * cols * 4;
  return Bytes(start, start + count * cols * 4);
}

TEST(OracleOptionTest, RowScaledEncodesEveryLineAlone) {
  const Bytes x = MakeTensor(Element::kF32, 48 * 64, Flavor::kSpread, 6);
  QuantizeSpec spec;
  spec.rows = 48;
  spec.cols = 64;
  spec.columnwise = true;
  spec.row_scaled = true;
  const auto q = oracle::Quantize(spec, x);
  ASSERT_EQ(q.rowwise.amax.size(), 48u);
  ASSERT_EQ(q.columnwise.amax.size(), 64u);
  for (int64_t r = 0; r < 48; ++r) {
    QuantizeSpec one;
    one.rows = 1;
    one.cols = 64;
    const auto alone = oracle::Quantize(one, Rows(x, 64, r, 1));
    EXPECT_EQ(alone.rowwise.amax[0], q.rowwise.amax[r]);
    EXPECT_TRUE(BytesEq("data", alone.rowwise.data,
                        Bytes(q.rowwise.data.begin() + r * 32,
                              q.rowwise.data.begin() + r * 32 + 32)));
    EXPECT_TRUE(BytesEq(
        "scale",
        Bytes(alone.rowwise.scale.begin(), alone.rowwise.scale.begin() + 4),
        Bytes(q.rowwise.scale.begin() + r * 4,
              q.rowwise.scale.begin() + r * 4 + 4)));
  }
  // Given maxima are used line by line, and returned.
  spec.row_amax = q.rowwise.amax;
  std::reverse(spec.row_amax.begin(), spec.row_amax.end());
  const auto given = oracle::Quantize(spec, x);
  EXPECT_EQ(given.rowwise.amax, spec.row_amax);
  EXPECT_NE(given.rowwise.scale, q.rowwise.scale);
  EXPECT_EQ(given.columnwise.scale, q.columnwise.scale);
}

// Any part of the matrix, cut at block boundaries, has the same codes as in the
// whole matrix.
TEST(OracleOptionTest, StochasticCodesDependOnThePositionOnly) {
  const auto x = oracle::Values(
      Element::kF32, MakeTensor(Element::kF32, 96 * 128, Flavor::kGaussian, 7));
  for (Format f : {Format::kNvfp4, Format::kNvfp4Square, Format::kMxfp4}) {
    QuantizeSpec spec;
    spec.format = f;
    spec.rows = 96;
    spec.cols = 128;
    spec.columnwise = true;
    spec.stochastic = true;
    spec.seed = 0x123456789ABCDEF0;
    spec.seed_offset = uint64_t{1} << 63;
    if (f != Format::kMxfp4) spec.row_amax = {4};
    const auto whole =
        oracle::Quantize(spec, oracle::FromValues(Element::kF32, x));
    QuantizeSpec part = spec;
    part.rows = 32;
    part.cols = 64;
    part.row_offset = 64;
    part.column_offset = 32;
    part.total_columns = 128;
    std::vector<float> cut;
    for (int64_t r = 64; r < 96; ++r) {
      cut.insert(cut.end(), x.begin() + r * 128 + 32, x.begin() + r * 128 + 96);
    }
    const auto q =
        oracle::Quantize(part, oracle::FromValues(Element::kF32, cut));
    for (int64_t r = 0; r < 32; ++r) {
      for (int64_t b = 0; b < 32; ++b) {
        ASSERT_EQ(q.rowwise.data[r * 32 + b],
                  whole.rowwise.data[(64 + r) * 64 + 16 + b]);
      }
    }
    for (int64_t c = 0; c < 64; ++c) {
      for (int64_t b = 0; b < 16; ++b) {
        ASSERT_EQ(q.columnwise.data[c * 16 + b],
                  whole.columnwise.data[(32 + c) * 48 + 32 + b]);
      }
    }
    EXPECT_EQ(whole.rowwise.scale,
              [&] {
                QuantizeSpec nearest = spec;
                nearest.stochastic = false;
                return oracle::Quantize(nearest,
                                        oracle::FromValues(Element::kF32, x));
              }()
                  .rowwise.scale);
    part.seed_offset = 0;  // 2 * 2^63 wraps to 0
    EXPECT_EQ(oracle::Quantize(part, oracle::FromValues(Element::kF32, cut))
                  .rowwise.data,
              q.rowwise.data);
    part.seed_offset = 1;
    EXPECT_NE(oracle::Quantize(part, oracle::FromValues(Element::kF32, cut))
                  .rowwise.data,
              q.rowwise.data);
  }
}

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

TEST(OracleOptionTest, GivenMaxima) {
  const Bytes x = MakeTensor(Element::kF32, 32 * 32, Flavor::kGaussian, 9);
  QuantizeSpec spec;
  spec.rows = spec.cols = 32;
  spec.columnwise = true;
  spec.want_amax = true;
  spec.row_amax = {7};
  auto q = oracle::Quantize(spec, x);
  EXPECT_THAT(q.rowwise.amax, ElementsAre(7));
  EXPECT_THAT(q.columnwise.amax, ElementsAre(7));
  const float plain = q.plain_amax.at(0);
  EXPECT_EQ(plain, oracle::Amax(oracle::Values(Element::kF32, x),
                                oracle::Policy::kIgnore));
  spec.column_amax = {9};
  q = oracle::Quantize(spec, x);
  EXPECT_THAT(q.columnwise.amax, ElementsAre(9));
  spec.column_amax.clear();
  spec.rotate_columns = true;
  spec.estimation = 1.5f;
  q = oracle::Quantize(spec, x);
  EXPECT_THAT(q.rowwise.amax, ElementsAre(7));
  EXPECT_THAT(q.columnwise.amax, ElementsAre(7 * 1.5f));
  spec.row_amax.clear();
  q = oracle::Quantize(spec, x);
  EXPECT_THAT(q.rowwise.amax, ElementsAre(plain));
  EXPECT_THAT(q.columnwise.amax, ElementsAre(plain * 1.5f));
  // Statistics are computed only on request.
  EXPECT_EQ(q.columnwise.stats.elements, 0);
  spec.rotate_columns = false;
  spec.estimation.reset();
  spec.splits = {10, 22};
  spec.row_amax = {3, 4};
  q = oracle::Quantize(spec, x);
  EXPECT_THAT(q.columnwise.amax, ElementsAre(3, 4));

  // The scale of FP8 follows from the amax; with a given scale the amax is only
  // an output.
  spec.format = Format::kFp8E4M3;
  q = oracle::Quantize(spec, x);
  EXPECT_THAT(oracle::Values(Element::kF32, q.rowwise.scale),
              ElementsAre(1 / (448.0f / 3), 1 / 112.0f));
  spec.splits.clear();
  spec.row_amax.clear();
  spec.scale = {16};
  q = oracle::Quantize(spec, x);
  EXPECT_THAT(q.rowwise.amax, ElementsAre(plain));
  EXPECT_THAT(oracle::Values(Element::kF32, q.columnwise.scale),
              ElementsAre(0.0625f));
}

// Quantize and RhtAmax agree on the amax of a rotated copy.
TEST(OracleOptionTest, RhtAmaxIsTheAmaxOfQuantize) {
  const Bytes x = MakeTensor(Element::kF32, 40 * 128, Flavor::kSpread, 11);
  for (int dimension : {16, 32, 64, 128}) {
    QuantizeSpec spec;
    spec.rows = 40;
    spec.cols = 128;
    spec.columnwise = spec.rotate_rows = spec.rotate_columns = true;
    spec.mask = oracle::Repeat(kMask);
    spec.dimension = dimension;
    const auto q = oracle::Quantize(spec, x);
    oracle::AmaxSpec amax;
    amax.rows = 40;
    amax.cols = 128;
    amax.mask = spec.mask;
    amax.dimension = dimension;
    const auto a = oracle::RhtAmax(amax, x);
    EXPECT_EQ(q.rowwise.amax, a.row_rotated);
    EXPECT_EQ(q.columnwise.amax, a.column_rotated);
    // Both ways of decoding equal decoding without, then undoing the rotation.
    oracle::DequantizeSpec back;
    back.rows = 40;
    back.cols = 128;
    back.dimension = dimension;
    back.rotated = true;
    back.mask = spec.mask;
    const Bytes decoded = oracle::Dequantize(back, q.rowwise);
    back.rotated = false;
    back.inverse = true;
    EXPECT_TRUE(BytesEq("inverse",
                        oracle::ApplyRht(Element::kF32, Element::kF32,
                                         spec.mask, true, decoded, dimension),
                        oracle::Dequantize(back, q.rowwise)));
  }
}

TEST(OracleOptionTest, FourOverSixHasSmallerErrors) {
  const Bytes x = MakeTensor(Element::kF32, 64 * 64, Flavor::kGaussian, 12);
  for (Format f : {Format::kNvfp4, Format::kNvfp4Square}) {
    QuantizeSpec spec;
    spec.format = f;
    spec.rows = spec.cols = 64;
    spec.statistics = true;
    const double plain = oracle::Quantize(spec, x).rowwise.stats.noise;
    spec.four_over_six = oracle::FourOverSix::kMse;
    for (bool fast : {false, true}) {
      spec.fast_error = fast;
      for (bool scale_256 : {false, true}) {
        spec.scale_256 = scale_256;
        const auto copy = oracle::Quantize(spec, x).rowwise;
        EXPECT_LT(copy.stats.noise, plain);
        // Decoding the bytes gives the errors that the statistics report.
        oracle::DequantizeSpec back;
        back.rows = back.cols = 64;
        back.format = f;
        back.scale_256 = scale_256;
        const auto d =
            oracle::Values(Element::kF32, oracle::Dequantize(back, copy));
        const auto v = oracle::Values(Element::kF32, x);
        double noise = 0;
        for (size_t i = 0; i < v.size(); ++i) {
          const double error = oracle::Sub(v[i], d[i]);
          noise += error * error;
        }
        EXPECT_NEAR(copy.stats.noise, noise, noise * 0x1p-22);
      }
    }
  }
}

// Tiles are zero beyond the matrix: a tile that extends beyond it equals one of
// the matrix padded with zeros.
TEST(OracleOptionTest, RaggedTilesOfFourOverSix) {
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

}  // namespace
}  // namespace quantd
