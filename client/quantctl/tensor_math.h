// Arithmetic for quantctl: conversion of elements, the signal-to-noise ratio of
// a round trip, and sample tensors.
#ifndef QUANTD_CLIENT_QUANTCTL_TENSOR_MATH_H_
#define QUANTD_CLIENT_QUANTCTL_TENSOR_MATH_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "quantd/format.h"

namespace quantd::client {

// Element `i` of a tensor of type f32, f16 or bf16.
double Element(DType dtype, absl::Span<const std::byte> bytes, size_t i);

// Sums up, piece by piece, the distance of `y` from `x` over the elements where
// both are finite.
class SquareSums {
 public:
  void Add(DType x_dtype, absl::Span<const std::byte> x, DType y_dtype,
           absl::Span<const std::byte> y);
  // 10 log10(sum x^2 / sum (x - y)^2). +infinity if they are equal; NaN if
  // there is nothing to compare.
  double sqnr_db() const;

 private:
  double signal_ = 0;
  double noise_ = 0;
};

// `count` bf16 numbers, the same on every machine: standard Gaussian, or
// Student's t with 3 degrees of freedom, whose tails hold outliers of a hundred
// times the median.
std::vector<uint16_t> GaussianSample(size_t count, uint64_t seed);
std::vector<uint16_t> OutlierSample(size_t count, uint64_t seed);

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_QUANTCTL_TENSOR_MATH_H_
