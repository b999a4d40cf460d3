// The 16-point randomized Hadamard transform in fp32, with its order of
// additions fixed, over a lane type (kernels/lanes.h).
//
// `signs` holds s[i] * 0.25 for i = 0..15, in every lane. Forward: y = x R;
// inverse: x = y R^T (kernels/sign_mask.h). Neither rounds below fp32.
#ifndef QUANTD_KERNELS_HADAMARD_H_
#define QUANTD_KERNELS_HADAMARD_H_

#include "kernels/lanes.h"

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

// `kExact`: a quarter of any input is exact, as it is for bf16 and fp16. Then
// the products of one operand go into the first stage.
template <typename L, bool kExact = false>
QUANTD_FN void RotateForward(typename L::F (&t)[kRhtSize],
                             const typename L::F* signs) {
  // Scaling first: a block near the largest bf16 must not overflow.
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
  // 4 * signs[i] is +-1: exact, and an exact zero comes out as +0.
  QUANTD_UNROLL
  for (int i = 0; i < kRhtSize; ++i) {
    t[i] = L::MulPlusZero(t[i], 4.0f * signs[i]);
  }
}

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_HADAMARD_H_
