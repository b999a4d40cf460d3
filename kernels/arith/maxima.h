// Largest magnitudes of blocks of 16 values, over a lane type
// (kernels/arith/lanes.h), plain and rotated.
#ifndef QUANTD_KERNELS_ARITH_MAXIMA_H_
#define QUANTD_KERNELS_ARITH_MAXIMA_H_

#include <cstdint>

#include "kernels/arith/codec.h"
#include "kernels/arith/hadamard.h"
#include "kernels/arith/lanes.h"

namespace quantd {
inline namespace QUANTD_ARITH {

// The number of values that the arithmetic handles at a time: an NVFP4 block,
// or a part of another format's block.
inline constexpr int kBlock = 16;

// A magnitude as fp32 bits, which order NaN above Inf.
template <typename L>
QUANTD_FN typename L::U MagnitudeOf(typename L::F x) {
  return L::Bits(x) & kAbsMask;
}

// The larger of a maximum and a magnitude; a NaN's magnitude is dropped.
template <typename L>
QUANTD_FN typename L::U LargerNumber(typename L::U magnitude,
                                     typename L::U max) {
  const typename L::U number = magnitude > kInfBits ? max : magnitude;
  return L::Max(number, max);
}

// The largest magnitude of a block: above kInfBits if it holds a NaN.
template <typename L>
QUANTD_FN typename L::U MaxMagnitude(const typename L::F (&v)[kBlock]) {
  typename L::U max = MagnitudeOf<L>(v[0]);
  QUANTD_UNROLL
  for (int i = 1; i < kBlock; ++i) max = L::Max(MagnitudeOf<L>(v[i]), max);
  return max;
}

// The largest magnitude of a block with NaN dropped: 0 for a block of NaN.
template <typename L>
QUANTD_FN typename L::U MaxNumber(const typename L::F (&v)[kBlock]) {
  typename L::U max{};
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) {
    max = LargerNumber<L>(MagnitudeOf<L>(v[i]), max);
  }
  return max;
}

// Whether none of 16 values is NaN.
template <typename L>
QUANTD_FN bool AreNumbers(const typename L::F* v) {
  typename L::U max{};
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) max = L::Max(MagnitudeOf<L>(v[i]), max);
  return !L::Any(max > kInfBits);
}

// Both maxima of n values: with NaN above Inf, and with NaN dropped.
template <typename L>
QUANTD_FN void FindMaxima(const typename L::F* v, int n, typename L::U* max,
                          typename L::U* clean) {
  using U = typename L::U;
  U all{};
  U numbers{};
  if constexpr (L::kWidth > 1) {
    // NaN is rare, so one test covers many lanes.
    int i = 0;
    for (; i + 8 <= n; i += 8) {
      U four[4];
      QUANTD_UNROLL
      for (int j = 0; j < 4; ++j) {
        four[j] =
            L::Max(MagnitudeOf<L>(v[i + j]), MagnitudeOf<L>(v[i + j + 4]));
      }
      all = L::Max(all,
                   L::Max(L::Max(four[0], four[1]), L::Max(four[2], four[3])));
    }
    for (; i < n; ++i) all = L::Max(MagnitudeOf<L>(v[i]), all);
    if (!L::Any(all > kInfBits)) {
      *max = *clean = all;
      return;
    }
  }
  for (int i = 0; i < n; ++i) {
    const U magnitude = MagnitudeOf<L>(v[i]);
    all = L::Max(magnitude, all);
    numbers = LargerNumber<L>(magnitude, numbers);
  }
  *max = all;
  *clean = numbers;
}

// Rotates a block and rounds it to bf16; its amax and codes are computed from
// these values. Returns its MaxMagnitude. `kExact`: see RotateForward.
template <typename L, bool kExact = false>
QUANTD_FN typename L::U RotateToBf16(typename L::F (&v)[kBlock],
                                     const typename L::F* signs) {
  using U = typename L::U;
  RotateForward<L, kExact>(v, signs);
  const U max = MaxMagnitude<L>(v);
  if (L::Any(max > kInfBits)) {
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) {
      const U rounded = L::Bits(RoundToBf16<L>(v[i]));
      const U nan = U{} + kNanBits;
      v[i] = L::Float(IsNan<L>(v[i]) ? nan : rounded);
    }
    return MaxMagnitude<L>(v);
  }
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) v[i] = RoundToBf16<L>(v[i]);
  // Rounding is monotone: the maximum of rounded values is the rounded maximum.
  return L::Bits(RoundToBf16<L>(L::Float(max)));
}

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_MAXIMA_H_
