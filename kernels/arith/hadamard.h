// The randomized Hadamard transform in fp32, with a fixed order of additions,
// over a lane type (kernels/arith/lanes.h).
//
// `signs` holds s[i] * n^-1/2 for i = 0..n-1, in every lane; n is 16 unless a
// comment says otherwise. Forward: y = x R; inverse: x = y R^T
// (quantd/sign_mask.h). Neither rounds to a type narrower than fp32.
#ifndef QUANTD_KERNELS_ARITH_HADAMARD_H_
#define QUANTD_KERNELS_ARITH_HADAMARD_H_

#include "kernels/arith/lanes.h"

namespace quantd {
inline namespace QUANTD_ARITH {

inline constexpr int kRhtSize = 16;

// Strides kFirst .. 8: (a, b) -> (a + b, a - b).
template <typename L, int kFirst = 1>
QUANTD_FN void Butterfly16(typename L::F (&t)[kRhtSize]) {
  QUANTD_UNROLL
  for (int stride = kFirst; stride < kRhtSize; stride *= 2) {
    QUANTD_UNROLL
    for (int i = 0; i < kRhtSize; ++i) {
      if ((i & stride) != 0) continue;
      const typename L::F a = t[i];
      const typename L::F b = t[i + stride];
      t[i] = a + b;
      t[i + stride] = a - b;
    }
  }
}

// `kExact`: a quarter of every input is exact, as for bf16 and fp16. The
// scaling of one operand is then part of the first stage.
template <typename L, bool kExact = false>
QUANTD_FN void RotateForward(typename L::F (&t)[kRhtSize],
                             const typename L::F* signs) {
  // Scales first: a block near the largest bf16 must not overflow.
  if constexpr (kExact) {
    QUANTD_UNROLL
    for (int i = 0; i < kRhtSize; i += 2) {
      const typename L::F a = L::MulPlusZero(t[i], signs[i]);
      const typename L::F b = t[i + 1];
      t[i] = L::AddProduct(a, b, signs[i + 1]);
      t[i + 1] = L::SubProduct(a, b, signs[i + 1]);
    }
    Butterfly16<L, 2>(t);
  } else {
    QUANTD_UNROLL
    for (int i = 0; i < kRhtSize; ++i) t[i] = L::MulPlusZero(t[i], signs[i]);
    Butterfly16<L>(t);
  }
}

template <typename L>
QUANTD_FN void RotateInverse(typename L::F (&t)[kRhtSize],
                             const typename L::F* signs) {
  const typename L::F quarter = typename L::F{} + 0.25f;
  QUANTD_UNROLL
  for (int i = 0; i < kRhtSize; ++i) t[i] = L::MulPlusZero(t[i], quarter);
  Butterfly16<L>(t);
  // 4 * signs[i] is +-1, so the product is exact, and an exact zero becomes +0.
  QUANTD_UNROLL
  for (int i = 0; i < kRhtSize; ++i) {
    t[i] = L::MulPlusZero(t[i], 4.0f * signs[i]);
  }
}

// Strides 16 .. n / 2 of n = 16 * kParts values that were rotated in blocks of
// 16.
template <typename L, int kParts>
QUANTD_FN void JoinSixteens(typename L::F* t) {
  for (int j = 0; j < kRhtSize; ++j) {
    typename L::F part[kParts];
    QUANTD_UNROLL
    for (int i = 0; i < kParts; ++i) part[i] = t[j + i * kRhtSize];
    QUANTD_UNROLL
    for (int stride = 1; stride < kParts; stride *= 2) {
      QUANTD_UNROLL
      for (int i = 0; i < kParts; ++i) {
        if ((i & stride) != 0) continue;
        const typename L::F a = part[i];
        const typename L::F b = part[i + stride];
        part[i] = a + b;
        part[i + stride] = a - b;
      }
    }
    QUANTD_UNROLL
    for (int i = 0; i < kParts; ++i) t[j + i * kRhtSize] = part[i];
  }
}

// RotateForwardOf for vectors of many lanes, with sixteen values in registers
// at a time. The additions and their order are the same.
template <typename L>
QUANTD_FN void RotateBySixteens(typename L::F* t, int n, const float* signs) {
  for (int i = 0; i < n; i += kRhtSize) {
    typename L::F sixteen[kRhtSize];
    QUANTD_UNROLL
    for (int j = 0; j < kRhtSize; ++j) {
      sixteen[j] = L::MulPlusZero(t[i + j], L::Broadcast(signs[i + j]));
    }
    Butterfly16<L>(sixteen);
    QUANTD_UNROLL
    for (int j = 0; j < kRhtSize; ++j) t[i + j] = sixteen[j];
  }
  if (n == 32) JoinSixteens<L, 2>(t);
  if (n == 64) JoinSixteens<L, 4>(t);
  if (n == 128) JoinSixteens<L, 8>(t);
}

// The additions of a rotation of n = 16, 32, 64 or 128 values in memory.
template <typename L>
QUANTD_FN void ButterflyOf(typename L::F* t, int n) {
  for (int stride = 1; stride < n; stride *= 2) {
    for (int i = 0; i < n; i += 2 * stride) {
      for (int j = i; j < i + stride; ++j) {
        const typename L::F a = t[j];
        const typename L::F b = t[j + stride];
        t[j] = a + b;
        t[j + stride] = a - b;
      }
    }
  }
}
// The rotations of n = 16, 32, 64 or 128 values in memory, with scalar signs.
template <typename L>
QUANTD_FN void RotateForwardOf(typename L::F* t, int n, const float* signs) {
  if constexpr (L::kWidth > 1) return RotateBySixteens<L>(t, n, signs);
  for (int i = 0; i < n; ++i) {
    t[i] = L::MulPlusZero(t[i], L::Broadcast(signs[i]));
  }
  ButterflyOf<L>(t, n);
}
template <typename L>
QUANTD_FN void RotateInverseOf(typename L::F* t, int n, const float* signs) {
  const float scale = signs[0] < 0.0f ? -signs[0] : signs[0];
  for (int i = 0; i < n; ++i) {
    t[i] = L::MulPlusZero(t[i], L::Broadcast(scale));
  }
  ButterflyOf<L>(t, n);
  for (int i = 0; i < n; ++i) {
    t[i] = L::MulPlusZero(t[i], L::Broadcast(signs[i] < 0.0f ? -1.0f : 1.0f));
  }
}

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_HADAMARD_H_
