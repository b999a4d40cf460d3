// Quantiles of measurements.
#ifndef QUANTD_TESTS_BENCH_QUANTILE_H_
#define QUANTD_TESTS_BENCH_QUANTILE_H_

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace quantd {

// Returns the value at rank q * (size - 1), rounded, or 0 without values.
inline double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double last = static_cast<double>(values.size() - 1);
  return values[static_cast<size_t>(q * last + 0.5)];
}

inline double Median(std::vector<double> values) {
  return Quantile(std::move(values), 0.5);
}

}  // namespace quantd

#endif  // QUANTD_TESTS_BENCH_QUANTILE_H_
