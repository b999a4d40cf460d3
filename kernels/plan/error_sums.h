// The exact sums from which error statistics are computed.
#ifndef QUANTD_KERNELS_PLAN_ERROR_SUMS_H_
#define QUANTD_KERNELS_PLAN_ERROR_SUMS_H_

#include <cstdint>

#include "quantd/error_statistics.h"

namespace quantd {

// Sums in progress; must start as zeros. Each term is the sum over a run of 16
// positions from kernels/arith/run_errors.h: a 24-bit integer times a power of
// two. Terms are added as integers, in bins of eight exponents each, so the
// totals are exact and independent of the order, for up to 2^37 elements.
struct ErrorSums {
  static constexpr int kBins = 81;
  struct Squares {
    uint64_t bins[kBins];
  };
  // A term equals fraction * 2^(place - kPlaceOfOne).
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

#endif  // QUANTD_KERNELS_PLAN_ERROR_SUMS_H_
