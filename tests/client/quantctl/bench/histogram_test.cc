#include "client/quantctl/bench/histogram.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/client/quantctl/cli_fixture.h"

namespace quantd {
namespace {

using quantctl::Histogram;

TEST(Histogram, QuantilesAreWithinTheirBound) {
  std::mt19937_64 random(7);
  std::vector<uint64_t> values;
  Histogram all;
  Histogram parts[2];
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t value = random() >> (24 + random() % 40);
    values.push_back(value);
    all.Add(value);
    parts[i % 2].Add(value);
  }
  parts[0].Merge(parts[1]);
  std::sort(values.begin(), values.end());
  for (const double q : {0.0, 0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto rank = static_cast<size_t>(
        std::max(1.0, std::ceil(q * static_cast<double>(values.size()))));
    const uint64_t exact = values[rank - 1];
    const uint64_t given = all.Quantile(q);
    EXPECT_GE(given, exact) << q;
    EXPECT_LE(given, exact + exact / 128) << q;
    EXPECT_EQ(parts[0].Quantile(q), given) << q;
  }
  EXPECT_EQ(parts[0].count(), values.size());
  EXPECT_EQ(parts[0].max(), values.back());
}

TEST(Histogram, EveryEdgeOfABucketIsInIt) {
  for (int power = 0; power < 40; ++power) {
    for (const int64_t off : {-1, 0, 1}) {
      const uint64_t value = (uint64_t{1} << power) + off;
      if (value >= uint64_t{1} << 40) continue;
      Histogram one;
      one.Add(value);
      one.Add(UINT64_MAX);  // so that the maximum hides nothing
      EXPECT_GE(one.Quantile(0.5), value);
      EXPECT_LE(one.Quantile(0.5), value + value / 128);
    }
  }
}

TEST(Histogram, NothingAndTooMuch) {
  Histogram h;
  EXPECT_EQ(h.Quantile(0.5), 0);
  h.Add(UINT64_MAX);
  h.Add(uint64_t{1} << 40);
  EXPECT_EQ(h.Quantile(0.5), UINT64_MAX);
  EXPECT_EQ(h.count(), 2);
}

}  // namespace
}  // namespace quantd
