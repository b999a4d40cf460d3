#include "tests/testing/oracle_statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "tests/testing/oracle_fp32.h"

namespace quantd::oracle {

void Tally::Add(Code code, float v, float multiplier, float d) {
  if (std::isfinite(v)) ++counts_.elements;
  if (std::fabs(Mul(v, multiplier)) >= ClipThreshold(code)) ++counts_.clipped;
  if (v != 0 && d == 0) ++counts_.flushed;
  if (!std::isfinite(v) || !std::isfinite(d)) return;
  const float error = Sub(v, d);
  counts_.max_error = std::max(counts_.max_error, std::fabs(error));
  Square(signal_, v);
  Square(noise_, error);
}

void Tally::Add(const Tally& other) {
  counts_.elements += other.counts_.elements;
  counts_.clipped += other.counts_.clipped;
  counts_.flushed += other.counts_.flushed;
  counts_.max_error = std::max(counts_.max_error, other.counts_.max_error);
  for (size_t i = 0; i < signal_.size(); ++i) {
    signal_[i] += other.signal_[i];
    noise_[i] += other.noise_[i];
  }
}

Statistics Tally::Result() const {
  Statistics out = counts_;
  out.signal = Sum(signal_);
  out.noise = Sum(noise_);
  out.sqnr_db =
      out.noise == 0 ? INFINITY : 10 * std::log10(out.signal / out.noise);
  return out;
}

void Tally::Square(Bins& bins, float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  const uint32_t exponent = bits >> 23 & 0xFF;
  const uint64_t fraction =
      (bits & 0x7FFFFF) | (exponent == 0 ? 0 : uint32_t{1} << 23);
  bins[exponent] += fraction * fraction;
}

double Tally::Sum(const Bins& bins) {
  double sum = 0;
  for (int i = 0; i < static_cast<int>(bins.size()); ++i) {
    sum += std::ldexp(static_cast<double>(bins[i]),
                      2 * (std::max(i, 1) - 127 - 23));
  }
  return sum;
}

}  // namespace quantd::oracle
