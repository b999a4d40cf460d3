#include "tests/oracle/statistics.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/oracle/fp32.h"

namespace quantd::oracle {
namespace {

// The sum of a run's squares, added pairwise in a tree. Values are first scaled
// by a power of two, so that the largest is between 2 and 4 unless it is
// subnormal.
double SumOfSquares(const std::vector<float>& run) {
  float largest = 0;
  for (float x : run) largest = std::max(largest, std::fabs(x));
  if (largest == 0) return 0;
  const int up = 1 - std::max(std::ilogb(largest), -126);
  std::vector<float> sums(kRun);
  for (size_t i = 0; i < run.size(); ++i) {
    const float x = Mul(run[i], std::ldexp(1.0f, up));
    sums[i] = Mul(x, x);
  }
  while (sums.size() > 1) {
    std::vector<float> pairs;
    for (size_t i = 0; i < sums.size(); i += 2) {
      pairs.push_back(quantd::oracle::Add(sums[i], sums[i + 1]));
    }
    sums = pairs;
  }
  return std::ldexp(double{sums[0]}, -2 * up);
}

}  // namespace

void ExactSum::Add(double x) {
  std::vector<double> parts;
  for (double part : parts_) {
    if (std::fabs(x) < std::fabs(part)) std::swap(x, part);
    const double sum = x + part;
    const double lost = part - (sum - x);
    if (lost != 0) parts.push_back(lost);
    x = sum;
  }
  if (x != 0) parts.push_back(x);
  parts_ = parts;
}

void ExactSum::Add(const ExactSum& other) {
  for (double part : other.parts_) Add(part);
}

double ExactSum::Rounded() const {
  double sum = 0;
  double lost = 0;
  size_t left = parts_.size();
  while (left > 0 && lost == 0) {
    const double before = sum;
    const double part = parts_[--left];
    sum = before + part;
    lost = part - (sum - before);
  }
  // It is not a tie if the remaining parts have the sign of the lost part.
  if (left > 0 && (lost < 0) == (parts_[left - 1] < 0)) {
    const double other = sum + 2 * lost;
    if (other - sum == 2 * lost) return other;
  }
  return sum;
}

void Tally::Add(Code code, const std::vector<float>& v,
                const std::vector<float>& y, const std::vector<float>& d) {
  std::vector<float> values(v.size());
  std::vector<float> errors(v.size());
  for (size_t i = 0; i < v.size(); ++i) {
    if (!std::isfinite(v[i])) continue;
    if (std::fabs(y[i]) >= ClipThreshold(code)) ++counts_.clipped;
    if (v[i] != 0 && d[i] == 0) ++counts_.flushed;
    if (!std::isfinite(d[i])) continue;
    ++counts_.elements;
    values[i] = v[i];
    errors[i] = Sub(v[i], d[i]);
    counts_.max_error = std::max(counts_.max_error, std::fabs(errors[i]));
  }
  signal_.Add(SumOfSquares(values));
  noise_.Add(SumOfSquares(errors));
}

void Tally::Add(const Tally& other) {
  counts_.elements += other.counts_.elements;
  counts_.clipped += other.counts_.clipped;
  counts_.flushed += other.counts_.flushed;
  counts_.max_error = std::max(counts_.max_error, other.counts_.max_error);
  signal_.Add(other.signal_);
  noise_.Add(other.noise_);
}

Statistics Tally::Result() const {
  Statistics out = counts_;
  out.signal = signal_.Rounded();
  out.noise = noise_.Rounded();
  out.sqnr_db = out.elements == 0 ? kNaN
                : out.noise == 0  ? INFINITY
                                  : 10 * std::log10(out.signal / out.noise);
  return out;
}

}  // namespace quantd::oracle
