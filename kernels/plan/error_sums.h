// The exact sums from which error statistics are computed.
#ifndef QUANTD_KERNELS_PLAN_ERROR_SUMS_H_
#define QUANTD_KERNELS_PLAN_ERROR_SUMS_H_

#include <cstdint>

#include "quantd/error_statistics.h"

namespace quantd {

// Sums in progress. Each term is the sum of a run of positions, made by
// kernels/arith/run_errors.h: 24 bits times a power of two. Terms are added as
// integers, with eight exponents to a bin, so the totals are exact and
// independent of the order, for up to 2^37 elements. Zero-initialise.
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
