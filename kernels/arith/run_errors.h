// The quantization errors of a run of 16 positions, over a lane type
// (kernels/arith/lanes.h), with a run in each lane: the terms of ErrorSums.
// kernels/plan/FORMATS.md, "Error statistics", explains them.
#ifndef QUANTD_KERNELS_ARITH_RUN_ERRORS_H_
#define QUANTD_KERNELS_ARITH_RUN_ERRORS_H_

#include <cstdint>

#include "kernels/arith/codec.h"
#include "kernels/arith/lanes.h"
#include "kernels/plan/error_sums.h"

namespace quantd {
inline namespace QUANTD_ARITH {

inline constexpr int kRun = 16;

// A sum of squares: the fp32 number with these bits, times 4^(exponent - 128).
template <typename L>
struct SquareSum {
  typename L::U bits;
  typename L::U exponent;
};

// The sum of the squares of 16 numbers. Numbers are scaled to about 1 by a
// power of two before they are squared, so that no square overflows. The
// squares are added pairwise in a tree, so that threads can share the work.
// `largest` is the largest magnitude, as bits.
template <typename L>
QUANTD_FN SquareSum<L> SumOfSquares(const typename L::F (&x)[kRun],
                                    typename L::U largest) {
  using U = typename L::U;
  const U exponent = L::Max(largest >> 23, U{} + 1u);
  const typename L::F scale = L::Float((255u - exponent) << 23);
  typename L::F sums[kRun];
  QUANTD_UNROLL
  for (int i = 0; i < kRun; ++i) {
    const typename L::F near_one = x[i] * scale;
    sums[i] = near_one * near_one;
  }
  QUANTD_UNROLL
  for (int n = 1; n < kRun; n *= 2) {
    QUANTD_UNROLL
    for (int i = 0; i < kRun; i += 2 * n) sums[i] = sums[i] + sums[i + n];
  }
  return {L::Bits(sums[0]), exponent};
}

template <typename L>
struct RunErrors {
  typename L::U elements;
  typename L::U clipped;
  typename L::U flushed;
  typename L::U max_error;  // bits
  SquareSum<L> signal;
  SquareSum<L> noise;
};

// The errors of `v`, which was scaled to `y` and rounded to codes that decode
// to `d`. `clip`, as bits, is the least magnitude that would round beyond the
// largest code. Only the first `count` positions exist.
template <typename L>
QUANTD_FN RunErrors<L> ErrorsOfRun(const typename L::F* v,
                                   const typename L::F* y,
                                   const typename L::F* d, uint32_t clip,
                                   int64_t count) {
  using F = typename L::F;
  using U = typename L::U;
  const U zero{};
  const U one = zero + 1u;
  RunErrors<L> r = {};
  U largest{};
  F values[kRun];
  F errors[kRun];
  QUANTD_UNROLL
  for (int i = 0; i < kRun; ++i) {
    values[i] = F{};
    errors[i] = F{};
    if (i >= count) continue;
    const U before = L::Bits(v[i]) & kAbsMask;
    const U scaled = L::Bits(y[i]) & kAbsMask;
    const U after = L::Bits(d[i]) & kAbsMask;
    const auto finite = before < kInfBits;
    const auto counted = finite & (after < kInfBits);
    const auto clips = finite & (scaled >= clip) & (scaled <= kInfBits);
    const auto flushes = finite & (before != 0u) & (after == 0u);
    r.elements = r.elements + (counted ? one : zero);
    r.clipped = r.clipped + (clips ? one : zero);
    r.flushed = r.flushed + (flushes ? one : zero);
    values[i] = counted ? v[i] : F{};
    // v and d have the same sign, so the difference of finite values is finite.
    errors[i] = counted ? v[i] - d[i] : F{};
    largest = L::Max(largest, L::Bits(values[i]) & kAbsMask);
    r.max_error = L::Max(r.max_error, L::Bits(errors[i]) & kAbsMask);
  }
  r.signal = SumOfSquares<L>(values, largest);
  r.noise = SumOfSquares<L>(errors, r.max_error);
  return r;
}

// ErrorsOfRun for several lanes and a whole run, if all values and decoded
// values are finite. `magnitudes` are the decoded values without signs. Leaves
// `clipped` at 0.
template <typename L>
QUANTD_FN RunErrors<L> ErrorsOfFiniteRun(const typename L::F* v,
                                         const typename L::F* magnitudes,
                                         typename L::U largest) {
  using F = typename L::F;
  using U = typename L::U;
  const U zero{};
  const U one = zero + 1u;
  RunErrors<L> r = {};
  r.elements = zero + static_cast<uint32_t>(kRun);
  F values[kRun];
  F errors[kRun];
  QUANTD_UNROLL
  for (int i = 0; i < kRun; ++i) {
    const U before = L::Bits(v[i]) & kAbsMask;
    const U after = L::Bits(magnitudes[i]);
    r.flushed = r.flushed + ((before != 0u) & (after == 0u) ? one : zero);
    values[i] = L::Float(before);
    errors[i] = values[i] - magnitudes[i];
    r.max_error = L::Max(r.max_error, L::Bits(errors[i]) & kAbsMask);
  }
  r.signal = SumOfSquares<L>(values, largest);
  r.noise = SumOfSquares<L>(errors, r.max_error);
  return r;
}

// The sum of one lane as a term of ErrorSums: the value to add and the bin. A
// nonzero sum must be a normal number.
struct SquareTerm {
  uint32_t value;  // below 2^31
  uint32_t bin;
};
QUANTD_FN SquareTerm TermOf(uint32_t bits, uint32_t exponent) {
  if (bits == 0) return {0, 0};
  const uint32_t place = (bits >> 23) + 2 * exponent;
  return {((bits & 0x7FFFFFu) | 0x800000u) << (place % 8), place / 8};
}

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_RUN_ERRORS_H_
