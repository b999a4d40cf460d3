// The oracle's error statistics.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "tests/oracle/oracle.h"
#include "tests/oracle/statistics.h"
#include "tests/testing/tensors.h"

namespace quantd {
namespace {

using oracle::Bytes;
using oracle::Element;
using oracle::Format;
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
  spec.statistics = true;
  return spec;
}

std::vector<float> Decoded(const QuantizeSpec& spec, const oracle::Copy& copy,
                           bool columnwise) {
  oracle::DequantizeSpec back;
  back.format = spec.format;
  back.rows = spec.rows;
  back.cols = spec.cols;
  back.columnwise = columnwise;
  return oracle::Values(Element::kF32, oracle::Dequantize(back, copy));
}

// Compares with simple sums over the decoded values.
TEST(OracleStatisticsTest, EveryFormat) {
  for (Format f : oracle::kFormats) {
    for (Flavor flavor : {Flavor::kNasty, Flavor::kGaussian}) {
      const auto spec = SpecOf(f, 30, 64);
      const Bytes bytes = MakeTensor(Element::kF32, 30 * 64, flavor, 4);
      const auto x = oracle::Values(Element::kF32, bytes);
      const auto q = oracle::Quantize(spec, bytes);
      for (bool columnwise : {false, true}) {
        const auto& copy = columnwise ? q.columnwise : q.rowwise;
        const auto d = Decoded(spec, copy, columnwise);
        int64_t elements = 0;
        int64_t flushed = 0;
        float largest = 0;
        double signal = 0;
        double noise = 0;
        for (size_t i = 0; i < x.size(); ++i) {
          flushed += x[i] != 0 && d[i] == 0;
          if (!std::isfinite(d[i])) continue;
          ++elements;
          const float error = x[i] - d[i];
          largest = std::max(largest, std::fabs(error));
          signal += double{x[i]} * x[i];
          noise += double{error} * error;
        }
        EXPECT_EQ(copy.stats.elements, elements);
        EXPECT_EQ(copy.stats.flushed, flushed) << NameOf(f);
        EXPECT_EQ(copy.stats.max_error, largest) << NameOf(f);
        // The oracle adds sixteen squares at a time in fp32.
        EXPECT_NEAR(copy.stats.signal, signal, signal * 0x1p-22);
        EXPECT_NEAR(copy.stats.noise, noise, noise * 0x1p-22);
        if (noise > 0) {
          EXPECT_NEAR(copy.stats.sqnr_db, 10 * std::log10(signal / noise),
                      1e-6);
        }
      }
    }
  }
}

TEST(OracleStatisticsTest, AFewElements) {
  auto spec = SpecOf(Format::kFp8E4M3, 1, 8);
  spec.columnwise = false;
  spec.scale = {1};
  const auto q = oracle::Quantize(
      spec, oracle::FromValues(Element::kF32, {463, -464, INFINITY, NAN,
                                               0x1p-10f, 0, -17, 3}));
  const auto& s = q.rowwise.stats;
  EXPECT_EQ(s.elements, 6);
  EXPECT_EQ(s.clipped, 1);  // -464, not Inf
  EXPECT_EQ(s.flushed, 1);
  EXPECT_EQ(s.max_error, 16);
  // The sum also has 2^-20, which is lost in fp32.
  EXPECT_EQ(s.signal, 463 * 463 + 464 * 464 + 17 * 17 + 9);
  EXPECT_EQ(s.noise, 15 * 15 + 16 * 16 + 1);
}

TEST(OracleStatisticsTest, ExactCopiesHaveNoNoise) {
  auto spec = SpecOf(Format::kMxfp4, 1, 32);
  const auto q = oracle::Quantize(
      spec, oracle::FromValues(Element::kF32, std::vector<float>(32, 3.0f)));
  EXPECT_EQ(q.rowwise.stats.noise, 0);
  EXPECT_EQ(q.rowwise.stats.sqnr_db, INFINITY);
}

TEST(OracleStatisticsTest, NonFiniteInputsHaveNoElements) {
  auto spec = SpecOf(Format::kMxfp4, 1, 32);
  for (float x : {NAN, INFINITY}) {
    const auto q = oracle::Quantize(
        spec, oracle::FromValues(Element::kF32, std::vector<float>(32, x)));
    const auto& s = q.rowwise.stats;
    EXPECT_EQ(s.elements, 0);
    EXPECT_EQ(s.clipped, 0);
    EXPECT_EQ(s.flushed, 0);
    EXPECT_TRUE(std::isnan(s.sqnr_db));
  }
}

// Squares that overflow fp32, and squares too small for it.
TEST(OracleStatisticsTest, AnyMagnitude) {
  for (float x : {0x1p127f, 0x1p-126f, 0x1p-149f}) {
    auto spec = SpecOf(Format::kFp8E4M3, 1, 32);
    spec.columnwise = false;
    const auto q = oracle::Quantize(
        spec, oracle::FromValues(Element::kF32, std::vector<float>(32, x)));
    EXPECT_EQ(q.rowwise.stats.signal, 32 * double{x} * x);
  }
}

// Sums whose rounding at the end is a tie, or a near-tie that a much smaller
// term decides.
TEST(OracleStatisticsTest, ExactSumsAreRoundedOnce) {
  const struct {
    std::vector<double> terms;
    double sum;
  } kCases[] = {
      {{}, 0},
      {{1, 0x1p-53}, 1},                      // a tie, to even
      {{1, 0x1p-53, 0x1p-200}, 1 + 0x1p-52},  // not a tie
      {{1 + 0x1p-52, 0x1p-53}, 1 + 0x1p-51},  // a tie, to even, up
      {{0x1p-200, 0x1p-53, 1}, 1 + 0x1p-52},  // in any order
      {{0x1p200, 1, 0x1p147}, 0x1p200 + 0x1p148},
  };
  for (const auto& c : kCases) {
    oracle::ExactSum sum;
    for (double term : c.terms) sum.Add(term);
    EXPECT_EQ(sum.Rounded(), c.sum);
  }
}

}  // namespace
}  // namespace quantd
