// Blocks of 16 elements of 16 bits, one made by each lane of a warp, which the
// warp gets back in fragments of matrices: transposed, or rotated by tensor
// cores.
//
// The inverse rotation of a decoded NVFP4 block as a matrix product is equal to
// the butterfly of kernels/arith/hadamard.h in every bit, where IsExact says
// so. Let 2^e <= |factor| < 2^(e+1) and p be the precision of the elements, 8
// or 11 bits. Its elements are 0, or from 0.5 to 6 times the factor, rounded:
// multiples of 2^(e-p), at most 12 * 2^e. Whatever is added up of their
// quarters, in any order, is a multiple of 2^(e-p-2) below 2^(e+6): p + 8 <= 19
// bits, exact in fp32 and in what tensor cores accumulate in. (Subnormal fp16
// elements are multiples of 2^-24 of fewer bits.) Only the sign of an exact
// zero is left, which the butterfly makes +0: so does adding +0.
#ifndef QUANTD_KERNELS_CUDA_DECODE_WARP_BLOCKS_CUH_
#define QUANTD_KERNELS_CUDA_DECODE_WARP_BLOCKS_CUH_

#include <cstdint>

#include "kernels/cuda/decode/decode.cuh"
#include "kernels/cuda/ptx/fragments.cuh"

namespace quantd::cuda {

// Whether tensor cores rotate a block under that factor exactly: its elements
// are finite and, in bf16, normal. Zeros are no problem.
template <DType D>
__device__ __forceinline__ bool IsExact(float factor) {
  const uint32_t bits = Scalar::Bits(factor) & kAbsMask;
  if constexpr (D == DType::kBF16) {
    constexpr uint32_t kLeast = (127u - 100u) << 23;
    constexpr uint32_t kMost = (127u + 100u) << 23;
    return bits == 0 || (bits >= kLeast && bits <= kMost);
  } else {
    constexpr uint32_t kMost = (127u + 13u) << 23;  // 6 * 2^13 < 65504
    return bits <= kMost;
  }
}

// Shared memory of a warp: twice, so that one barrier between writing and
// reading is enough. A block is two halves of 16 bytes; where they change
// places, neither the lanes that write a half nor the eight rows of a fragment
// meet in a bank.
struct WarpBlocks {
  uint4 halves[2][2 * kWarp];
};
__device__ __forceinline__ int HalfIndex(int slot, int half) {
  return 2 * slot + (half ^ (slot >> 2 & 1));
}

// Elements (i, k) and (i, k + 1) of R: x[i] is the sum of R[i][k] * y[k].
template <DType D>
__device__ __forceinline__ uint32_t RotationPair(const float* signs, int i,
                                                 int k) {
  const float sign = signs[i];
  return PackPair<D>(__popc(i & k) % 2 == 0 ? sign : -sign,
                     __popc(i & (k + 1)) % 2 == 0 ? sign : -sign);
}

// Two sums, rounded; an exact zero is +0.
template <DType D>
__device__ __forceinline__ uint32_t PackSums(float low, float high) {
  return PackPair<D>(__fadd_rn(low, 0.0f), __fadd_rn(high, 0.0f));
}

// A block by a single thread, in fp32: what needs no neighbours and knows no
// bounds. The inverse rotation, where there are signs, sees the values as they
// would be stored without it.
template <DType D, DType E>
__device__ __forceinline__ void DecodeAlone(const uint32_t* words, float factor,
                                            const float* signs,
                                            float (&v)[kBlock]) {
  DecodeSixteen<Scalar>(E, words, v);
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) v[i] = v[i] * factor;
  if (signs == nullptr) return;
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) {
    v[i] = DecodeElement<D>(EncodeElement<D>(v[i]));
  }
  RotateInverse<Scalar>(v, signs);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_DECODE_WARP_BLOCKS_CUH_
