// The options of the oracle's Quantize and RhtAmax, each against something
// simpler.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tests/testing/golden.h"
#include "tests/testing/matchers.h"
#include "tests/testing/oracle.h"
#include "tests/testing/tensors.h"

namespace quantd {
namespace {

using oracle::Bytes;
using oracle::Copy;
using oracle::Element;
using oracle::Format;
using oracle::QuantizeSpec;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint16_t kMask = 0xD7E8;

std::string NameOf(Format f) {
  return "format " + std::to_string(static_cast<int>(f));
}

// Rows [first, first + count) of a matrix in fp32.
Bytes Rows(const Bytes& x, int64_t cols, int64_t first, int64_t count) {
  const auto start = x.begin() + first * cols * 4;
  return Bytes(start, start + count * cols * 4);
}

// The specs that grouping is tried with: every format with what goes with it.
std::vector<QuantizeSpec> ManySpecs() {
  std::vector<QuantizeSpec> specs;
  for (Format f : oracle::kFormats) {
    QuantizeSpec spec;
    spec.format = f;
    spec.rows = 149;
    spec.cols = 128;
    spec.rowwise = spec.columnwise = true;
    spec.dbias = Element::kF32;
    spec.want_amax = true;
    specs.push_back(spec);
    spec.swizzled = oracle::IsNvfp4(f) || oracle::IsMx(f);
    spec.stochastic = oracle::CodeOf(f) == oracle::Code::kE2m1;
    spec.seed = 99;
    spec.epsilon = 4;
    specs.push_back(spec);
    spec.stochastic = false;
    if (oracle::IsSquare(f)) {
      spec.swizzled = false;
      spec.compact = true;
      spec.four_over_six = oracle::FourOverSix::kMae;
      specs.push_back(spec);
    } else if (f == Format::kNvfp4 || oracle::IsMx(f)) {
      spec.rotate_rows = spec.rotate_columns = true;
      spec.mask = oracle::Repeat(kMask);
      spec.dimension = 64;
      specs.push_back(spec);
      spec.rotate_rows = spec.rotate_columns = false;
    }
    if (oracle::IsNvfp4(f)) {
      spec.row_scaled = f == Format::kNvfp4;
      spec.compact = false;
      specs.push_back(spec);
    }
    if (oracle::IsTensor(f)) {
      spec.scale = {3, 5, 7, 9, 11};
      specs.push_back(spec);
    }
  }
  return specs;
}

// Group by group, each alone, at its place in the payload.
TEST(OracleOptionTest, GroupsAreTensorsOfTheirOwn) {
  const std::vector<int64_t> splits = {0, 40, 100, 0, 9};
  const Bytes x = MakeTensor(Element::kF32, 149 * 128, Flavor::kOutliers, 5);
  for (QuantizeSpec spec : ManySpecs()) {
    spec.splits = splits;
    const auto whole = oracle::Quantize(spec, x);
    Copy row;
    Copy column;
    Bytes dbias;
    std::vector<float> amax;
    int64_t first = 0;
    const auto append = [](auto& to, const auto& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    for (size_t g = 0; g < splits.size(); ++g) {
      QuantizeSpec one = spec;
      one.splits.clear();
      one.rows = splits[g];
      one.row_offset = first;
      if (!spec.scale.empty()) one.scale = {spec.scale[g]};
      const auto q = oracle::Quantize(one, Rows(x, 128, first, splits[g]));
      for (auto [to, from] :
           {std::pair{&row, &q.rowwise}, std::pair{&column, &q.columnwise}}) {
        to->data_offsets.push_back(to->data.size());
        to->scale_offsets.push_back(to->scale.size());
        append(to->data, from->data);
        append(to->scale, from->scale);
        append(to->amax, from->amax);
      }
      append(dbias, q.dbias);
      append(amax, q.plain_amax);
      first += splits[g];
    }
    for (const auto& [name, want, got] :
         {std::tuple{"rowwise", &row, &whole.rowwise},
          std::tuple{"columnwise", &column, &whole.columnwise}}) {
      const std::string what = NameOf(spec.format) + " " + name;
      EXPECT_TRUE(BytesEq(what + " data", want->data, got->data));
      EXPECT_TRUE(BytesEq(what + " scale", want->scale, got->scale));
      EXPECT_EQ(want->amax, got->amax) << what;
      ASSERT_EQ(got->data_offsets.size(), 6u);
      EXPECT_EQ(got->data_offsets.back(), got->data.size());
      EXPECT_EQ(got->scale_offsets.back(), got->scale.size());
      for (size_t g = 0; g < splits.size(); ++g) {
        EXPECT_EQ(got->data_offsets[g], want->data_offsets[g]);
        EXPECT_EQ(got->scale_offsets[g], want->scale_offsets[g]);
      }
    }
    EXPECT_TRUE(BytesEq("dbias", dbias, whole.dbias));
    EXPECT_EQ(amax, whole.plain_amax);
    // Decoding finds the slices.
    for (bool columnwise : {false, true}) {
      const Copy& copy = columnwise ? whole.columnwise : whole.rowwise;
      oracle::DequantizeSpec back;
      back.format = spec.format;
      back.rows = 149;
      back.cols = 128;
      back.columnwise = columnwise;
      back.splits = splits;
      back.swizzled = spec.swizzled;
      back.compact = spec.compact;
      back.row_scaled = spec.row_scaled;
      back.dimension = spec.dimension;
      back.mask = spec.mask;
      back.inverse = spec.rotate_rows;
      const auto y =
          oracle::Values(Element::kF32, oracle::Dequantize(back, copy));
      const auto v = oracle::Values(Element::kF32, x);
      if (!spec.scale.empty()) continue;  // that clips
      double signal = 0;
      double noise = 0;
      for (size_t i = 0; i < v.size(); ++i) {
        signal += double{v[i]} * v[i];
        noise += (double{v[i]} - y[i]) * (double{v[i]} - y[i]);
      }
      EXPECT_GT(signal, noise * 15) << NameOf(spec.format);
    }
  }
}

TEST(OracleOptionTest, RowScaledIsEveryLineAlone) {
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
  // Given, they are used one by one and come back.
  spec.row_amax = q.rowwise.amax;
  std::reverse(spec.row_amax.begin(), spec.row_amax.end());
  const auto given = oracle::Quantize(spec, x);
  EXPECT_EQ(given.rowwise.amax, spec.row_amax);
  EXPECT_NE(given.rowwise.scale, q.rowwise.scale);
  EXPECT_EQ(given.columnwise.scale, q.columnwise.scale);
}

// Any part of the matrix, cut where blocks begin, has the codes it has in the
// whole.
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
    part.seed_offset = 0;  // twice 2^63 is 0
    EXPECT_EQ(oracle::Quantize(part, oracle::FromValues(Element::kF32, cut))
                  .rowwise.data,
              q.rowwise.data);
    part.seed_offset = 1;
    EXPECT_NE(oracle::Quantize(part, oracle::FromValues(Element::kF32, cut))
                  .rowwise.data,
              q.rowwise.data);
  }
}

// The bytes of a rotated block go on beyond the last row, and a block that
// starts inside a run of 16 rows takes bytes of two.
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
  x[0] = 0x1p24f;  // swallows the ones of its chunk
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
  EXPECT_THAT(q.columnwise.amax, ElementsAre(plain * 1.5f));
  EXPECT_EQ(q.columnwise.stats.elements, 32 * 32);
  spec.row_amax.clear();
  q = oracle::Quantize(spec, x);
  EXPECT_THAT(q.rowwise.amax, ElementsAre(plain));
  spec.rotate_columns = false;
  spec.estimation.reset();
  spec.splits = {10, 22};
  spec.row_amax = {3, 4};
  q = oracle::Quantize(spec, x);
  EXPECT_THAT(q.columnwise.amax, ElementsAre(3, 4));

  // Of FP8 it makes the scale; a given scale makes it an observation.
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

TEST(OracleOptionTest, RhtAmaxOfLinesAndGroups) {
  const Bytes x = MakeTensor(Element::kF32, 40 * 64, Flavor::kOutliers, 10);
  oracle::AmaxSpec spec;
  spec.rows = 40;
  spec.cols = 64;
  spec.mask = oracle::Repeat(kMask);
  spec.dimension = 32;
  const auto whole = oracle::RhtAmax(spec, x);
  spec.per_line = true;
  const auto lines = oracle::RhtAmax(spec, x);
  const auto largest = [](const std::vector<float>& v) {
    return *std::max_element(v.begin(), v.end());
  };
  EXPECT_EQ(lines.row.size(), 40u);
  EXPECT_EQ(lines.column_rotated.size(), 64u);
  EXPECT_THAT(whole.row, ElementsAre(largest(lines.row)));
  EXPECT_THAT(whole.row_rotated, ElementsAre(largest(lines.row_rotated)));
  EXPECT_THAT(whole.column, ElementsAre(largest(lines.column)));
  EXPECT_THAT(whole.column_rotated, ElementsAre(largest(lines.column_rotated)));

  const std::vector<int64_t> splits = {7, 0, 33};
  for (bool per_line : {false, true}) {
    spec.per_line = per_line;
    spec.rows = 40;
    spec.splits = splits;
    const auto grouped = oracle::RhtAmax(spec, x);
    spec.splits.clear();
    oracle::Amaxes want;
    int64_t first = 0;
    const auto append = [](auto& to, const auto& from) {
      to.insert(to.end(), from.begin(), from.end());
    };
    for (int64_t rows : splits) {
      spec.rows = rows;
      const auto one = oracle::RhtAmax(spec, Rows(x, 64, first, rows));
      append(want.row, one.row);
      append(want.row_rotated, one.row_rotated);
      append(want.column, one.column);
      append(want.column_rotated, one.column_rotated);
      first += rows;
    }
    EXPECT_EQ(grouped.row, want.row);
    EXPECT_EQ(grouped.row_rotated, want.row_rotated);
    EXPECT_EQ(grouped.column, want.column);
    EXPECT_EQ(grouped.column_rotated, want.column_rotated);
    EXPECT_EQ(grouped.row.size(), per_line ? 40u : 3u);
    EXPECT_EQ(grouped.column.size(), per_line ? 3u * 64 : 3u);
  }
  spec.dimension = 128;
  EXPECT_THAT(oracle::RhtAmax(spec, Rows(x, 64, 7, 33)).row_rotated, IsEmpty());
}

// What Quantize computes for a rotated copy is what RhtAmax says.
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
    // And both ways back give the same as turning the decoded values back.
    oracle::DequantizeSpec back;
    back.rows = 40;
    back.cols = 128;
    back.dimension = dimension;
    back.rotated = true;
    back.mask = spec.mask;
    const Bytes decoded = oracle::Dequantize(back, q.rowwise);
    back.inverse = true;
    EXPECT_TRUE(BytesEq("inverse",
                        oracle::ApplyRht(Element::kF32, Element::kF32,
                                         spec.mask, true, decoded, dimension),
                        oracle::Dequantize(back, q.rowwise)));
  }
}

}  // namespace
}  // namespace quantd
