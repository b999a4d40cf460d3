#include "kernels/plan/error_sums.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace quantd {
namespace {

void Add(const ErrorSums::Squares& from, ErrorSums::Squares* to) {
  for (int i = 0; i < ErrorSums::kBins; ++i) to->bins[i] += from.bins[i];
}

// The sum of the squares, rounded once.
double Total(const ErrorSums::Squares& squares) {
  // Bins overlap, so their sums are first converted to digits, which do not.
  constexpr int kDigits = ErrorSums::kBins + 8;
  uint8_t digits[kDigits];
  uint64_t carry = 0;
  int top = 0;
  for (int i = 0; i < kDigits; ++i) {
    if (i < ErrorSums::kBins) carry += squares.bins[i];
    digits[i] = static_cast<uint8_t>(carry);
    carry >>= 8;
    if (digits[i] != 0) top = i;
  }
  // These eight digits have more bits than a double. The lower digits affect
  // only the rounding, by whether any of them is not zero.
  uint64_t head = 0;
  for (int i = top; i > top - 8; --i)
    head = head << 8 | (i < 0 ? 0 : digits[i]);
  for (int i = top - 8; i >= 0; --i) head |= digits[i] != 0;
  return std::ldexp(static_cast<double>(head),
                    8 * (top - 7) - ErrorSums::kPlaceOfOne);
}

}  // namespace

double ErrorStatistics::sqnr_db() const {
  if (elements == 0) return std::numeric_limits<double>::quiet_NaN();
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
