// The errors of a quantized copy.
#ifndef QUANTD_ERROR_STATISTICS_H_
#define QUANTD_ERROR_STATISTICS_H_

#include <cstdint>

namespace quantd {

// The errors of a copy against the input, or against the rotated input if the
// copy is rotated. NaN and Inf do not count.
struct ErrorStatistics {
  uint64_t elements = 0;  // finite in the input and in the copy
  uint64_t clipped = 0;   // magnitudes that would round beyond the largest code
  uint64_t flushed = 0;   // not zero, but decoded to zero
  // Computed over the values that `elements` counts:
  float max_error = 0;
  double signal = 0;  // sum of squares of the values
  double noise = 0;   // sum of squares of the errors

  // Signal-to-quantization-noise ratio; +Inf without noise, NaN without
  // elements.
  double sqnr_db() const;
};

}  // namespace quantd

#endif  // QUANTD_ERROR_STATISTICS_H_
