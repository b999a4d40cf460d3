// Groups in the oracle: it treats every group as a separate tensor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <tuple>

#include "tests/oracle/oracle.h"
#include "tests/testing/matchers.h"
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

// The specs for tests of groups: every format with its options.
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

// Each group, quantized alone, equals its part of the result.
TEST(OracleGroupTest, GroupsAreTensorsOfTheirOwn) {
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
    // Dequantizing finds the parts.
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
      if (!spec.scale.empty()) continue;  // clips values
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

TEST(OracleGroupTest, RhtAmaxOfLinesAndGroups) {
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

}  // namespace
}  // namespace quantd
