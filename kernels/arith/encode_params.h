// What all lines of a Quantize share. Plain data: the same on every device, and
// kernels take it as it is.
#ifndef QUANTD_KERNELS_ARITH_ENCODE_PARAMS_H_
#define QUANTD_KERNELS_ARITH_ENCODE_PARAMS_H_

#include <cstdint>

#include "kernels/plan/profile/numerics.h"
#include "quantd/format.h"

namespace quantd {

struct EncodeParams {
  Scaling scaling;
  DType element;
  DType input;
  DType scale;  // how a scale is stored
  int block;    // positions that share a scale; 0: all
  bool square;
  bool propagate;
  uint32_t clip;  // ElementLimits::clip as fp32 bits
  int64_t cols;   // K

  // NVFP4.
  float range;  // Nvfp4Range
  FourOverSix four_over_six;
  bool fast_error;
  // Stochastic rounding: position (m, k) is (row_offset + m, column_offset + k)
  // of a matrix with total_columns columns.
  bool stochastic;
  uint64_t seed;
  uint64_t subsequence;  // of the rowwise copy; the columnwise one is next
  int64_t row_offset;
  int64_t column_offset;
  int64_t total_columns;

  // FP8.
  float element_max;
  float epsilon;
  bool power_of_two;
  float scale_limit;  // instead of an infinite scale
  // MX.
  ScaleRule rule;
  float inverse_max;  // fl32(1 / element_max)
  int emax;           // exponent of element_max
  int mantissa;       // stored mantissa bits of an element
  // What the library leaves to choose; beside TransformerEngine's choices, what
  // the ones before say may not hold.
  Numerics numerics;
};

}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_ENCODE_PARAMS_H_
