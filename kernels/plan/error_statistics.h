// How far a quantized copy is from what was quantized.
#ifndef QUANTD_KERNELS_PLAN_ERROR_STATISTICS_H_
#define QUANTD_KERNELS_PLAN_ERROR_STATISTICS_H_

#include <cstdint>

namespace quantd {

// Of a copy against the input, or against its rotation where it was rotated.
// NaN and Inf are in none of it.
struct ErrorStatistics {
  uint64_t elements = 0;  // finite, and decoded to something finite
  uint64_t clipped = 0;   // would have rounded beyond the largest code
  uint64_t flushed = 0;   // not zero, but decoded to zero
  // Of `elements`:
  float max_error = 0;
  double signal = 0;  // sum of squares of the values
  double noise = 0;   // sum of squares of the errors

  // Signal-to-quantization-noise ratio; +Inf where there is no noise, NaN where
  // there are no elements.
  double sqnr_db() const;
};

// The sums while they are made. Each term is the sum of a run of positions,
// which kernels/arith/run_errors.h makes: 24 bits times a power of two. Terms
// are added as integers, those of eight exponents in a bin, so that the totals
// are exact and know no order, for up to 2^37 elements. Zero-initialise.
struct ErrorSums {
  static constexpr int kBins = 81;
  struct Squares {
    uint64_t bins[kBins];
  };
  // A term is fraction * 2^(place - kPlaceOfOne).
  static constexpr int kPlaceOfOne = 406;

  Squares signal;
  Squares noise;
  uint64_t elements;
  uint64_t clipped;
  uint64_t flushed;
  uint32_t max_error;  // fp32 bits
  uint32_t padding;

  void Merge(const ErrorSums& other);
  ErrorStatistics Finish() const;
};

}  // namespace quantd

#endif  // QUANTD_KERNELS_PLAN_ERROR_STATISTICS_H_
