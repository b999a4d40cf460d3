// Arithmetic for quantctl: the signal-to-noise ratio of a round trip, and
// sample tensors.
#ifndef QUANTD_CLIENT_QUANTCTL_TENSOR_MATH_H_
#define QUANTD_CLIENT_QUANTCTL_TENSOR_MATH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "quantd/format.h"

namespace quantd::client {

// Computes the SQNR of `y` relative to `x`, piece by piece, over the elements
// that are finite in both. Both have type f32, f16 or bf16.
class SquareSums {
 public:
  void Add(DType x_dtype, absl::Span<const std::byte> x, DType y_dtype,
           absl::Span<const std::byte> y);
  // 10 log10(sum x^2 / sum (x - y)^2). Infinity if all elements are equal, NaN
  // if there is nothing to compare.
  double sqnr_db() const;

 private:
  double signal_ = 0;
  double noise_ = 0;
};

// `count` random bf16 numbers, the same on every machine. GaussianSample has a
// standard normal distribution. OutlierSample has Student's t-distribution with
// 3 degrees of freedom, with outliers of a hundred times the median.
std::vector<uint16_t> GaussianSample(size_t count, uint64_t seed);
std::vector<uint16_t> OutlierSample(size_t count, uint64_t seed);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_QUANTCTL_TENSOR_MATH_H_
