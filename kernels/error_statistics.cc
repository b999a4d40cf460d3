#include "kernels/error_statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace quantd {
namespace {

void Add(const ErrorSums::Squares& from, ErrorSums::Squares* to) {
  for (int e = 0; e < ErrorSums::kExponents; ++e) {
    to->low[e] += from.low[e];
    to->high[e] += from.high[e];
  }
}

double Total(const ErrorSums::Squares& squares) {
  double total = 0;
  for (int e = 0; e < ErrorSums::kExponents; ++e) {
    const double sum = static_cast<double>(squares.high[e]) * 0x1p24 +
                       static_cast<double>(squares.low[e]);
    total += std::ldexp(sum, 2 * (std::max(e, 1) - 150));
  }
  return total;
}

}  // namespace

double ErrorStatistics::sqnr_db() const {
  if (noise == 0) return std::numeric_limits<double>::infinity();
  return 10 * std::log10(signal / noise);
}

void ErrorSums::Merge(const ErrorSums& other) {
  Add(other.signal, &signal);
  Add(other.noise, &noise);
  elements += other.elements;
  clipped += other.clipped;
  flushed += other.flushed;
  max_error = std::max(max_error, other.max_error);
}

ErrorStatistics ErrorSums::Finish() const {
  ErrorStatistics s;
  s.elements = elements;
  s.clipped = clipped;
  s.flushed = flushed;
  s.max_error = std::bit_cast<float>(max_error);
  s.signal = Total(signal);
  s.noise = Total(noise);
  return s;
}

}  // namespace quantd
