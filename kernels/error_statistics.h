// How far a quantized copy is from what was quantized.
#ifndef QUANTD_KERNELS_ERROR_STATISTICS_H_
#define QUANTD_KERNELS_ERROR_STATISTICS_H_

#include <cstdint>

namespace quantd {

// Of a copy against the input, or against its rotation where it was rotated.
struct ErrorStatistics {
  uint64_t elements = 0;  // finite ones
  uint64_t clipped = 0;   // would have rounded beyond the largest code; Inf too
  uint64_t flushed = 0;   // not zero, but decoded to zero
  // Where both the value and what it decodes to are finite:
  float max_error = 0;
  double signal = 0;  // sum of squares of the values
  double noise = 0;   // sum of squares of the errors

  // Signal-to-quantization-noise ratio; +Inf where there is no noise.
  double sqnr_db() const;
};

// The sums while they are made. A square of an fp32 number is an integer of 48
// bits times a power of four: added up by exponent in two halves the sum is
// exact, whatever the order, for up to 2^40 elements. Zero-initialise.
struct ErrorSums {
  static constexpr int kExponents = 255;

  struct Squares {
    uint64_t low[kExponents];   // of the 24 low bits of the squares
    uint64_t high[kExponents];  // of the others
  };
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

#endif  // QUANTD_KERNELS_ERROR_STATISTICS_H_
