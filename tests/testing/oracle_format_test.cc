// Relates the oracle's formats to each other and to the numbers they represent.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "tests/oracle/oracle.h"
#include "tests/testing/golden.h"
#include "tests/testing/matchers.h"
#include "tests/testing/tensors.h"

namespace quantd {
namespace {

using oracle::Bytes;
using oracle::Element;
using oracle::Format;
using oracle::Layout;
using oracle::QuantizeSpec;

std::string NameOf(Format f) {
  return "format " + std::to_string(static_cast<int>(f));
}

QuantizeSpec SpecOf(Format f, int64_t rows, int64_t cols) {
  QuantizeSpec spec;
  spec.format = f;
  spec.rows = rows;
  spec.cols = cols;
  spec.rowwise = spec.columnwise = true;
  return spec;
}

std::vector<float> Decoded(const QuantizeSpec& spec, const oracle::Copy& copy,
                           bool columnwise) {
  oracle::DequantizeSpec back;
  back.format = spec.format;
  back.rows = spec.rows;
  back.cols = spec.cols;
  back.columnwise = columnwise;
  back.splits = spec.splits;
  back.swizzled = spec.swizzled;
  back.compact = spec.compact;
  back.row_scaled = spec.row_scaled;
  back.scale_256 = spec.scale_256;
  back.dimension = spec.dimension;
  back.mask = spec.mask;
  back.inverse = columnwise ? spec.rotate_columns : spec.rotate_rows;
  return oracle::Values(Element::kF32, oracle::Dequantize(back, copy));
}

std::vector<float> Transposed(const std::vector<float>& x, int64_t rows,
                              int64_t cols) {
  std::vector<float> t(x.size());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) t[c * rows + r] = x[r * cols + c];
  }
  return t;
}

TEST(OracleFormatTest, Sizes) {
  struct Sizes {
    size_t data, scale;
  };
  const struct {
    Format format;
    Sizes row, column;
  } kCases[] = {
      {Format::kNvfp4, {1600, 1536}, {2560, 1024}},
      {Format::kNvfp4Square, {1600, 1536}, {2560, 1024}},
      {Format::kFp8E4M3, {3200, 4}, {3200, 4}},
      {Format::kFp8E5M2, {3200, 4}, {3200, 4}},
      {Format::kMxfp8E4M3, {3200, 1024}, {3200, 1024}},
      {Format::kMxfp8E5M2, {3200, 1024}, {3200, 1024}},
      {Format::kMxfp4, {1600, 1024}, {2560, 1024}},
      {Format::kFp8BlockE4M3, {3200, 160}, {3200, 640}},
      {Format::kFp8BlockE5M2, {3200, 160}, {3200, 640}},
      {Format::kFp8SquareE4M3, {3200, 16}, {3200, 32}},
      {Format::kFp8SquareE5M2, {3200, 16}, {3200, 32}},
      {Format::kFp8ChannelE4M3, {3200, 80}, {3200, 640}},
  };
  EXPECT_EQ(std::size(kCases), std::size(oracle::kFormats));
  for (const auto& c : kCases) {
    auto spec = SpecOf(c.format, 20, 160);
    const auto expect = [&](const Sizes& row, const Sizes& column) {
      const auto q = oracle::Quantize(spec, Bytes(20 * 160 * 4));
      EXPECT_EQ(q.rowwise.data.size(), row.data) << NameOf(c.format);
      EXPECT_EQ(q.rowwise.scale.size(), row.scale) << NameOf(c.format);
      EXPECT_EQ(q.columnwise.data.size(), column.data) << NameOf(c.format);
      EXPECT_EQ(q.columnwise.scale.size(), column.scale) << NameOf(c.format);
      const size_t amaxes = oracle::IsChannel(c.format) ? 20 : 1;
      EXPECT_EQ(q.rowwise.amax.size(), oracle::HasAmax(c.format) ? amaxes : 0u);
    };
    expect(c.row, c.column);
    if (oracle::IsNvfp4(c.format) || oracle::IsMx(c.format)) {
      spec.swizzled = true;
      expect(c.row, c.column);
      spec.swizzled = false;
    }
    if (c.format == Format::kNvfp4Square) {
      spec.compact = true;
      expect({1600, 20}, {2560, 20});
    }
    const size_t tensor = oracle::IsTensor(c.format) ? 4 : 0;
    for (int64_t rows : {0, 20}) {
      // Empty lines keep their place in FP8 channels' scales.
      const size_t lines =
          oracle::IsChannel(c.format) ? (rows ? 80 : 640) : 2 * tensor;
      const auto q =
          oracle::Quantize(SpecOf(c.format, rows, rows ? 0 : 160), {});
      EXPECT_EQ(q.rowwise.data.size() + q.columnwise.data.size(), 0u);
      EXPECT_EQ(q.rowwise.scale.size() + q.columnwise.scale.size(), lines);
    }
  }
}

TEST(OracleFormatTest, SizesOfRotatedColumns) {
  const struct {
    Format format;
    int dimension;
    size_t data, scale;
  } kCases[] = {
      {Format::kNvfp4, 16, 2560, 1024},
      {Format::kNvfp4, 64, 5120, 1024},
      {Format::kNvfp4, 128, 10240, 2048},
      {Format::kMxfp8E4M3, 16, 5120, 1024},
      {Format::kMxfp8E5M2, 64, 10240, 1024},
      {Format::kMxfp4, 16, 2560, 1024},
      {Format::kMxfp4, 128, 10240, 1024},
  };
  for (const auto& c : kCases) {
    auto spec = SpecOf(c.format, 20, 160);
    spec.rowwise = false;
    spec.rotate_columns = true;
    spec.dimension = c.dimension;
    const auto q = oracle::Quantize(spec, Bytes(20 * 160 * 4));
    EXPECT_EQ(q.columnwise.data.size(), c.data) << NameOf(c.format);
    EXPECT_EQ(q.columnwise.scale.size(), c.scale) << NameOf(c.format);
  }
}

// The columnwise copy is the rowwise copy of the transpose, stored in another
// order.
TEST(OracleFormatTest, ColumnsAreTheRowsOfTheTranspose) {
  for (Format f : oracle::kFormats) {
    for (const auto& [rows, cols] : {std::pair{20, 160}, std::pair{133, 35}}) {
      const auto x = oracle::Values(
          Element::kF32,
          MakeTensor(Element::kF32, rows * cols, Flavor::kNasty, rows));
      const auto across = SpecOf(f, rows, cols);
      const auto down = SpecOf(f, cols, rows);
      const auto q =
          oracle::Quantize(across, oracle::FromValues(Element::kF32, x));
      const auto t = oracle::Quantize(
          down, oracle::FromValues(Element::kF32, Transposed(x, rows, cols)));
      EXPECT_EQ(q.columnwise.amax, t.rowwise.amax);
      const Layout from = oracle::MakeLayout({f, rows, cols, true});
      const Layout to = oracle::MakeLayout({f, cols, rows, false});
      ASSERT_EQ(from.lines, to.lines);
      ASSERT_EQ(from.blocks, to.blocks);
      for (int64_t line = 0; line < from.lines; ++line) {
        for (int64_t at = 0; at < from.kept; ++at) {
          ASSERT_EQ(from.GetCode(q.columnwise.data.data(), line, at),
                    to.GetCode(t.rowwise.data.data(), line, at))
              << NameOf(f);
        }
        for (int64_t b = 0; b < from.blocks; ++b) {
          ASSERT_EQ(from.GetScale(q.columnwise.scale.data(), line, b),
                    to.GetScale(t.rowwise.scale.data(), line, b))
              << NameOf(f);
        }
      }
      EXPECT_EQ(Decoded(across, q.columnwise, true),
                Transposed(Decoded(down, t.rowwise, false), cols, rows));
    }
  }
}

TEST(OracleFormatTest, SquaresAreTheSameBothWays) {
  for (Format f : oracle::kFormats) {
    if (!oracle::IsSquare(f) && !oracle::IsTensor(f)) continue;
    for (oracle::FourOverSix metric :
         {oracle::FourOverSix::kOff, oracle::FourOverSix::kMse}) {
      auto spec = SpecOf(f, 150, 144);
      spec.four_over_six = metric;
      const Bytes x =
          MakeTensor(Element::kF32, 150 * 144, Flavor::kOutliers, 1);
      const auto q = oracle::Quantize(spec, x);
      const auto rows = Decoded(spec, q.rowwise, false);
      EXPECT_EQ(rows, Decoded(spec, q.columnwise, true)) << NameOf(f);
      if (f != Format::kNvfp4Square) continue;
      spec.compact = true;
      const auto compact = oracle::Quantize(spec, x);
      EXPECT_TRUE(BytesEq("data", q.rowwise.data, compact.rowwise.data));
      EXPECT_EQ(rows, Decoded(spec, compact.rowwise, false));
      EXPECT_EQ(rows, Decoded(spec, compact.columnwise, true));
      for (int64_t tile = 0; tile < 10; ++tile) {
        for (int64_t b = 0; b < 9; ++b) {
          const uint8_t byte = compact.rowwise.scale[tile * 9 + b];
          EXPECT_EQ(compact.columnwise.scale[b * 10 + tile], byte);
          // Replicated for existing rows; the padding is zero.
          for (int64_t row = 16 * tile; row < 16 * tile + 16; ++row) {
            EXPECT_EQ(q.rowwise.scale[row * 12 + b], row < 150 ? byte : 0);
          }
        }
      }
    }
  }
}

// Visits the tiles in memory order: 128 rows x 4 columns each, row tiles
// outermost. Within a tile, 32 rows of 16 bytes, which hold four rows 32 apart.
TEST(OracleFormatTest, SwizzledScales) {
  for (Format f : oracle::kFormats) {
    if (!oracle::IsNvfp4(f) && !oracle::IsMx(f)) continue;
    auto spec = SpecOf(f, 150, 288);
    const Bytes x = MakeTensor(Element::kF32, 150 * 288, Flavor::kSpread, 2);
    const auto linear = oracle::Quantize(spec, x);
    spec.swizzled = true;
    const auto swizzled = oracle::Quantize(spec, x);
    for (bool columnwise : {false, true}) {
      const auto& from = columnwise ? linear.columnwise : linear.rowwise;
      const auto& to = columnwise ? swizzled.columnwise : swizzled.rowwise;
      EXPECT_TRUE(BytesEq(NameOf(f), from.data, to.data));
      EXPECT_EQ(Decoded(spec, to, columnwise),
                Decoded(SpecOf(f, 150, 288), from, columnwise));
      const Layout layout = oracle::MakeLayout({f, 150, 288, columnwise});
      Bytes walked;
      for (int64_t top = 0; top < layout.lines; top += 128) {
        for (int64_t left = 0; left < layout.blocks; left += 4) {
          for (int64_t r = top; r < top + 32; ++r) {
            for (int64_t line = r; line < r + 128; line += 32) {
              for (int64_t b = left; b < left + 4; ++b) {
                const bool inside = line < layout.lines && b < layout.blocks;
                walked.push_back(
                    inside ? layout.GetScale(from.scale.data(), line, b) : 0);
              }
            }
          }
        }
      }
      EXPECT_TRUE(BytesEq(NameOf(f), walked, to.scale));
    }
  }
}

// Every code is the nearest to its element, and the error fits the number of
// bits of the format.
TEST(OracleFormatTest, CodesAreNearest) {
  for (Format f : oracle::kFormats) {
    auto spec = SpecOf(f, 64, 160);
    spec.statistics = true;
    const Bytes bytes =
        MakeTensor(Element::kF32, 64 * 160, Flavor::kGaussian, 3);
    const auto x = oracle::Values(Element::kF32, bytes);
    const auto q = oracle::Quantize(spec, bytes);
    const Layout layout = oracle::MakeLayout({f, 64, 160, false});
    const oracle::Code code = oracle::CodeOf(f);
    const int codes = code == oracle::Code::kE2m1 ? 16 : 256;
    for (int64_t line = 0; line < 64; ++line) {
      for (int64_t at = 0; at < 160; ++at) {
        const float amax = q.rowwise.amax.empty() ? 0 : q.rowwise.amax[0];
        const double factor = oracle::FactorOf(
            f, layout.GetScale(q.rowwise.scale.data(), line, at / layout.block),
            amax, oracle::kRange448);
        const double v = x[line * 160 + at];
        double best = INFINITY;
        for (int i = 0; i < codes; ++i) {
          const double d = oracle::CodeValue(code, i) * factor;
          if (std::isfinite(d)) best = std::min(best, std::fabs(d - v));
        }
        const uint8_t got = layout.GetCode(q.rowwise.data.data(), line, at);
        const double loss =
            std::fabs(oracle::CodeValue(code, got) * factor - v);
        ASSERT_LE(loss, best + std::fabs(v) * 1e-6) << NameOf(f);
      }
    }
    const double least = code == oracle::Code::kE2m1   ? 16
                         : code == oracle::Code::kE4m3 ? 29
                                                       : 23;
    EXPECT_GT(q.rowwise.stats.sqnr_db, least) << NameOf(f);
    EXPECT_LT(q.rowwise.stats.sqnr_db, least + 8) << NameOf(f);
    EXPECT_EQ(q.rowwise.stats.clipped, 0) << NameOf(f);
  }
}

TEST(OracleFormatTest, NaNsInBlocks) {
  for (Format f : oracle::kFormats) {
    auto spec = SpecOf(f, 2, 128);
    std::vector<float> x(256, 0.5f);
    x[5] = std::numeric_limits<float>::quiet_NaN();
    x[6] = 0.25f;  // not the maximum
    const Bytes bytes = oracle::FromValues(Element::kF32, x);
    const uint8_t nan_code = oracle::CodeOf(oracle::CodeOf(f), NAN);
    const Layout layout = oracle::MakeLayout({f, 2, 128, false});
    const auto codes = [&](const oracle::Copy& copy) {
      std::vector<uint8_t> first;
      for (int64_t at = 0; at < 128; ++at) {
        first.push_back(layout.GetCode(copy.data.data(), 0, at));
      }
      return first;
    };
    const auto kept = oracle::Quantize(spec, bytes);
    EXPECT_TRUE(kept.saw_nan);
    EXPECT_FALSE(kept.saw_inf);
    EXPECT_EQ(codes(kept.rowwise)[5], nan_code) << NameOf(f);
    EXPECT_NE(codes(kept.rowwise)[6], nan_code) << NameOf(f);
    x[5] = 0.5f;
    const auto clean =
        oracle::Quantize(spec, oracle::FromValues(Element::kF32, x));
    EXPECT_TRUE(BytesEq(NameOf(f), clean.rowwise.scale, kept.rowwise.scale));

    spec.policy = oracle::Policy::kPropagate;
    const auto hurt = oracle::Quantize(spec, bytes);
    const uint32_t scale = layout.GetScale(hurt.rowwise.scale.data(), 0, 0);
    if (oracle::IsTensor(f) || oracle::IsChannel(f)) {
      EXPECT_EQ(scale, 0x3F800000u);
      EXPECT_EQ(codes(hurt.rowwise)[6],
                oracle::CodeOf(oracle::CodeOf(f), .25f));
    } else {
      EXPECT_EQ(scale, oracle::IsNvfp4(f) ? 0x7Fu
                       : oracle::IsMx(f)  ? 0xFFu
                                          : 0x7FC00000u);
      EXPECT_EQ(codes(hurt.rowwise)[6], oracle::IsNvfp4(f) ? 7 : nan_code);
      EXPECT_TRUE(std::isnan(Decoded(spec, hurt.rowwise, false)[6]));
    }
    // For channels, only the line that contains the NaN.
    if (oracle::IsChannel(f)) {
      EXPECT_TRUE(std::isnan(hurt.rowwise.amax[0]));
    } else {
      for (float a : hurt.rowwise.amax) EXPECT_TRUE(std::isnan(a));
    }
    spec.policy = oracle::Policy::kReject;
    EXPECT_TRUE(oracle::Quantize(spec, bytes).rejected);
  }
}

// The NaN scale of a block of MXFP4 sets no codes beyond the last element.
TEST(OracleFormatTest, PaddingOfANaNBlock) {
  auto spec = SpecOf(Format::kMxfp4, 2, 1);
  spec.rowwise = false;
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
