// The oracle's error statistics.
#include "tests/testing/oracle_statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "tests/testing/oracle.h"
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

// Straightforward sums over what Dequantize gives.
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
        int64_t flushed = 0;
        float largest = 0;
        double signal = 0;
        double noise = 0;
        for (size_t i = 0; i < x.size(); ++i) {
          flushed += x[i] != 0 && d[i] == 0;
          if (!std::isfinite(d[i])) continue;
          const float error = x[i] - d[i];
          largest = std::max(largest, std::fabs(error));
          signal += double{x[i]} * x[i];
          noise += double{error} * error;
        }
        EXPECT_EQ(copy.stats.elements, 30 * 64);
        EXPECT_EQ(copy.stats.flushed, flushed) << NameOf(f);
        EXPECT_EQ(copy.stats.max_error, largest) << NameOf(f);
        EXPECT_NEAR(copy.stats.signal, signal, signal * 1e-12);
        EXPECT_NEAR(copy.stats.noise, noise, noise * 1e-12);
        if (noise > 0) {
          EXPECT_NEAR(copy.stats.sqnr_db, 10 * std::log10(signal / noise),
                      1e-9);
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
  EXPECT_EQ(s.clipped, 2);  // -464 and Inf
  EXPECT_EQ(s.flushed, 1);
  EXPECT_EQ(s.max_error, 16);
  EXPECT_EQ(s.signal, 463 * 463 + 464 * 464 + 17 * 17 + 9 + 0x1p-20);
  EXPECT_EQ(s.noise, 15 * 15 + 16 * 16 + 1 + 0x1p-20);
}

TEST(OracleStatisticsTest, WithoutLoss) {
  auto spec = SpecOf(Format::kMxfp4, 1, 32);
  const auto q = oracle::Quantize(
      spec, oracle::FromValues(Element::kF32, std::vector<float>(32, 3.0f)));
  EXPECT_EQ(q.rowwise.stats.noise, 0);
  EXPECT_EQ(q.rowwise.stats.sqnr_db, INFINITY);
}

// Exact sums do not depend on an order, nor on how they are put together.
TEST(OracleStatisticsTest, Tallies) {
  const auto x = oracle::Values(
      Element::kF32, MakeTensor(Element::kF32, 4096, Flavor::kSpread, 1));
  oracle::Tally forward;
  oracle::Tally backward;
  oracle::Tally halves[2];
  for (size_t i = 0; i < x.size(); ++i) {
    const float other = x[x.size() - 1 - i];
    forward.Add(oracle::Code::kE4m3, x[i], 1, x[i] / 2);
    backward.Add(oracle::Code::kE4m3, other, 1, other / 2);
    halves[i % 2].Add(oracle::Code::kE4m3, x[i], 1, x[i] / 2);
  }
  halves[0].Add(halves[1]);
  const auto want = forward.Result();
  for (const auto& got : {backward.Result(), halves[0].Result()}) {
    EXPECT_EQ(got.signal, want.signal);
    EXPECT_EQ(got.noise, want.noise);
    EXPECT_EQ(got.elements, want.elements);
    EXPECT_EQ(got.clipped, want.clipped);
    EXPECT_EQ(got.flushed, want.flushed);
    EXPECT_EQ(got.max_error, want.max_error);
  }
}

}  // namespace
}  // namespace quantd
