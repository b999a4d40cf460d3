// Arithmetic of two fp32 numbers at a time on sm_100 and sm_103: compiled and
// emulated, never run. (For sm_120 the compiler would split it and add moves.)
#ifndef QUANTD_KERNELS_CUDA_PTX_FLOAT_PAIRS_CUH_
#define QUANTD_KERNELS_CUDA_PTX_FLOAT_PAIRS_CUH_

#include <cuda_runtime.h>

#include "kernels/arith/codec.h"

namespace quantd::cuda {

// Multiplies all numbers by m.
template <int N>
__device__ __forceinline__ void MultiplyBy(float m, float (&v)[N]) {
  QUANTD_UNROLL
  for (int i = 0; i < N; i += 2) {
#if __CUDA_ARCH__ >= 1000 && __CUDA_ARCH__ < 1200
    const float2 products = __fmul2_rn({v[i], v[i + 1]}, {m, m});
    v[i] = products.x;
    v[i + 1] = products.y;
#else
    v[i] = __fmul_rn(v[i], m);
    v[i + 1] = __fmul_rn(v[i + 1], m);
#endif
  }
}

// Adds m times each number of a to that of v, with one rounding.
template <int N>
__device__ __forceinline__ void AddProducts(float m, const float (&a)[N],
                                            float (&v)[N]) {
  QUANTD_UNROLL
  for (int i = 0; i < N; i += 2) {
#if __CUDA_ARCH__ >= 1000 && __CUDA_ARCH__ < 1200
    const float2 sums = __ffma2_rn({a[i], a[i + 1]}, {m, m}, {v[i], v[i + 1]});
    v[i] = sums.x;
    v[i + 1] = sums.y;
#else
    v[i] = __fmaf_rn(a[i], m, v[i]);
    v[i + 1] = __fmaf_rn(a[i + 1], m, v[i + 1]);
#endif
  }
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_PTX_FLOAT_PAIRS_CUH_
