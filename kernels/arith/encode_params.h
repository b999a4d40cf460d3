// Parameters that all lines of a Quantize share. Plain data that kernels take
// as an argument, the same on every device.
#ifndef QUANTD_KERNELS_ARITH_ENCODE_PARAMS_H_
#define QUANTD_KERNELS_ARITH_ENCODE_PARAMS_H_

#include <cstdint>

#include "kernels/plan/profile/numerics.h"
#include "quantd/format.h"
#include "quantd/nvfp4_options.h"

namespace quantd {

struct EncodeParams {
  Scaling scaling;
  DType element;
  DType input;
  DType scale;  // type of a stored scale
  int block;    // positions that share a scale; 0: the whole line
  bool square;
  bool propagate;
  uint32_t clip;  // ElementLimits::clip as fp32 bits
  int64_t cols;   // K

  // NVFP4.
  float range;  // Nvfp4Range
  // With scale_search, four_over_six is kMse.
  Nvfp4Arithmetic nvfp4;
  // Stochastic rounding: position (m, k) is (row_offset + m, column_offset + k)
  // of a matrix with total_columns columns.
  bool stochastic;
  uint64_t seed;
  uint64_t subsequence;  // for the rowwise copy; the columnwise one has the
                         // next
  int64_t row_offset;
  int64_t column_offset;
  int64_t total_columns;

  // FP8.
  float element_max;
  float epsilon;
  bool power_of_two;
  float scale_limit;  // replaces an infinite scale
  // MX.
  ScaleRule rule;
  float inverse_max;  // fl32(1 / element_max)
  int emax;           // exponent of element_max
  int mantissa;       // stored mantissa bits of an element
  // The choices of a profile's library. If they are not TransformerEngine's,
  // the fields above may not apply.
  Numerics numerics;
};

}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_ENCODE_PARAMS_H_
