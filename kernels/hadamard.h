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

// Strides 1, 2, 4, 8: (a, b) -> (a + b, a - b).
template <typename L>
QUANTD_FN void Butterfly16(typename L::F (&t)[kRhtSize]) {
  QUANTD_UNROLL
  for (int stride = 1; stride < kRhtSize; stride *= 2) {
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

template <typename L>
QUANTD_FN void RotateForward(typename L::F (&t)[kRhtSize],
                             const typename L::F* signs) {
  // Scaling first: a block near the largest bf16 must not overflow.
  QUANTD_UNROLL
  for (int i = 0; i < kRhtSize; ++i) t[i] = L::MulPlusZero(t[i], signs[i]);
  Butterfly16<L>(t);
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
