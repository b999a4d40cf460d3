// Statistics of stochastic rounding: the frequency of rounding up, the
// uniformity of the random bytes, and the independence of the two directions.
// Seeds are fixed, so these tests never fail by chance.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "kernels/device/devices.h"
#include "tests/testing/device.h"
#include "tests/testing/matchers.h"
#include "tests/testing/tensors.h"

namespace quantd {
namespace {

using oracle::Bytes;
using oracle::Element;
using oracle::QuantizeSpec;

// With this amax S is 2^-9, which is also the scale of every block with a
// maximum of 3 to 9: elements are multiplied by 1.
constexpr float kUnitAmax = 2688.0f * 512.0f;

QuantizeSpec UnitSpec(int64_t rows, int64_t cols) {
  QuantizeSpec spec;
  spec.element = Element::kF32;
  spec.rows = rows;
  spec.cols = cols;
  spec.row_amax = {kUnitAmax};
  spec.stochastic = true;
  spec.seed = 0x5EED5EED12345678;
  return spec;
}

Device OpenCpu(int threads = 2, const std::string& isa = "auto") {
  BackendOptions options;
  options.threads = threads;
  auto device = Device::Open({"cpu", isa}, options);
  EXPECT_THAT(device, IsOk());
  return *std::move(device);
}

uint8_t CodeAt(const Bytes& data, int64_t i) {
  return data[i / 2] >> (i % 2 * 4) & 15;
}

// A value between two codes, and its expected rounding.
struct Rise {
  uint8_t low;  // the lower code
  float chance;
  int bin;
};
constexpr int kBinsOfStep = 16;
constexpr int kBins = 7 * kBinsOfStep;

Rise RiseOf(float magnitude) {
  const float step = magnitude >= 4 ? 2.0f : magnitude >= 2 ? 1.0f : 0.5f;
  const float start = std::floor(magnitude / step) * step;
  const float f = (magnitude - start) / step;
  const uint8_t low = oracle::E2m1Code(start);
  return {low, std::floor(256 * f) / 256,
          low * kBinsOfStep + static_cast<int>(f * kBinsOfStep)};
}

// For 10^8 values in (-6, 6), the share of each bin that is rounded up agrees
// with the probability floor(256 f) / 256 within 4 sigma.
TEST(StochasticTest, RoundsUpWithTheExpectedProbability) {
  constexpr int64_t kRows = 2048;
  constexpr int64_t kCols = 2048;
  constexpr int kRounds = 24;
  // Multiples of 2^-18, to which a byte's fraction of a step is added exactly.
  std::vector<float> x(kRows * kCols);
  std::vector<Rise> rises(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const uint64_t random = Mix(i);
    x[i] = static_cast<float>(random % (6 << 18)) * 0x1p-18f;
    if (i % 16 == i / 16 % 16) x[i] = 4.5f;  // keeps the block's scale the same
    rises[i] = RiseOf(x[i]);
    if (random >> 63) x[i] = -x[i];
  }
  const Bytes input = oracle::FromValues(Element::kF32, x);
  Device device = OpenCpu();
  std::array<double, kBins> sum = {};
  std::array<double, kBins> variance = {};
  std::array<int64_t, kBins> count = {};
  for (int round = 0; round < kRounds; ++round) {
    QuantizeSpec spec = UnitSpec(kRows, kCols);
    spec.row_offset = round * kRows;
    const auto q = device.Quantize(spec, input);
    ASSERT_THAT(q, IsOk());
    for (size_t i = 0; i < x.size(); ++i) {
      const uint8_t code = CodeAt(q->rowwise.data, static_cast<int64_t>(i));
      const Rise& r = rises[i];
      const int up = (code & 7) - r.low;
      ASSERT_TRUE(up == 0 || up == 1) << x[i];
      ASSERT_EQ(code >> 3, std::signbit(x[i])) << x[i];
      sum[r.bin] += up - r.chance;
      variance[r.bin] += r.chance * (1 - r.chance);
      ++count[r.bin];
    }
  }
  int64_t values = 0;
  double worst = 0;
  for (int bin = 0; bin < kBins; ++bin) {
    values += count[bin];
    ASSERT_GT(count[bin], 100'000);
    const double sigmas = std::fabs(sum[bin]) / std::sqrt(variance[bin]);
    worst = std::max(worst, sigmas);
    EXPECT_LT(sigmas, 4) << "bin " << bin;
  }
  EXPECT_GE(values, 100'000'000);
  std::cout << fmt::format("{} values, worst of {} bins {:.2f} sigma\n", values,
                           kBins, worst);
}

// The random bytes of a request, found from its replies: 4 + j / 128 becomes 6
// iff j + byte >= 256, so eight requests determine each byte.
std::vector<uint8_t> DrawnBytes(Device& device, int64_t rows, int64_t cols,
                                bool columnwise, uint64_t seed) {
  const int64_t count = rows * cols;
  std::vector<uint8_t> bytes(count);
  std::vector<float> x(count);
  QuantizeSpec spec = UnitSpec(rows, cols);
  spec.seed = seed;
  spec.rowwise = !columnwise;
  spec.columnwise = columnwise;
  for (int bit = 128; bit > 0; bit /= 2) {
    for (int64_t i = 0; i < count; ++i) {
      x[i] = 4 + static_cast<float>(256 - (bytes[i] | bit)) / 128;
    }
    const auto q = device.Quantize(spec, oracle::FromValues(Element::kF32, x));
    EXPECT_THAT(q, IsOk());
    if (!q.ok()) return bytes;
    const Bytes& data = columnwise ? q->columnwise.data : q->rowwise.data;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        const int64_t at = columnwise ? c * rows + r : r * cols + c;
        if (CodeAt(data, at) == 7) bytes[r * cols + c] |= bit;
      }
    }
  }
  return bytes;
}

// Pearson's statistic of every `stride`-th byte from `first` on: 255 +- 22.6
// for uniform ones.
double ChiSquare(const std::vector<uint8_t>& bytes, size_t first,
                 size_t stride) {
  std::array<int64_t, 256> counts = {};
  int64_t n = 0;
  for (size_t i = first; i < bytes.size(); i += stride, ++n) ++counts[bytes[i]];
  const double expected = static_cast<double>(n) / 256;
  double chi = 0;
  for (int64_t count : counts) {
    chi += (count - expected) * (count - expected) / expected;
  }
  return chi;
}

// The correlation of two series of n bytes, times sqrt(n). It is standard
// normal if they are independent.
double Correlation(const uint8_t* a, const uint8_t* b, size_t n) {
  double ab = 0;
  for (size_t i = 0; i < n; ++i) ab += (a[i] - 127.5) * (b[i] - 127.5);
  const double variance = (256.0 * 256.0 - 1) / 12;
  return ab / (variance * std::sqrt(static_cast<double>(n)));
}

TEST(StochasticTest, BytesAreUniformAndDirectionsIndependent) {
  constexpr int64_t kRows = 1024;
  constexpr int64_t kCols = 1024;
  constexpr uint64_t kSeed = 20260814;
  constexpr double kSigma = 22.583;  // sqrt(2 * 255)
  Device device = OpenCpu();
  const auto row = DrawnBytes(device, kRows, kCols, false, kSeed);
  const auto column = DrawnBytes(device, kRows, kCols, true, kSeed);
  const auto other = DrawnBytes(device, kRows, kCols, false, kSeed + 1);
  for (int64_t i = 0; i < kRows * kCols; i += 97) {
    const int64_t m = i / kCols;
    const int64_t k = i % kCols;
    ASSERT_EQ(row[i], oracle::RandomByte({kSeed, 0, false, kCols}, m, k));
    ASSERT_EQ(column[i], oracle::RandomByte({kSeed, 0, true, kCols}, m, k));
  }
  for (const auto* bytes : {&row, &column}) {
    const double chi = ChiSquare(*bytes, 0, 1);
    EXPECT_LT(std::fabs(chi - 255), 4 * kSigma);
    std::cout << fmt::format("chi-square {:.1f} with 255 degrees\n", chi);
    // Tests every 16th column separately. Rowwise, its bytes have the same
    // place in their 128-bit outputs.
    for (size_t i = 0; i < 16; ++i) {
      EXPECT_LT(std::fabs(ChiSquare(*bytes, i, 16) - 255), 4 * kSigma) << i;
    }
  }
  const size_t n = row.size();
  const auto independent = [&](const char* what, const uint8_t* a,
                               const uint8_t* b, size_t count) {
    const double sigmas = Correlation(a, b, count);
    EXPECT_LT(std::fabs(sigmas), 4) << what;
    std::cout << fmt::format("{}: {:.2f} sigma\n", what, sigmas);
  };
  independent("rowwise with columnwise", row.data(), column.data(), n);
  independent("seed with the next seed", row.data(), other.data(), n);
  independent("neighbours in a row", row.data(), row.data() + 1, n - 1);
  independent("neighbours in a column", row.data(), row.data() + kCols,
              n - kCols);
  independent("rows 16 apart, columnwise", column.data(),
              column.data() + 16 * kCols, n - 16 * kCols);
}

}  // namespace
}  // namespace quantd
