// Undoes rotations of blocks of 16 elements: parts of two fast methods, and
// DecodeAlone, which works with any block. If IsExact holds, the fast methods
// give the same bits as RotateInverse of kernels/arith/hadamard.h.
//
// Tensor cores rotate E2M1 with 16-bit output. Let 2^e <= |factor| < 2^(e+1),
// and let p be the precision of the elements, 8 or 11 bits. An element is 0, or
// the factor times a number from 0.5 to 6, rounded. So it is a multiple of
// 2^(e-p) and at most 12 * 2^e. Any sum of quarters of elements, in any order,
// is a multiple of 2^(e-p-2) and below 2^(e+6). That is at most p + 8 <= 19
// bits, which fp32 and the accumulators of tensor cores hold exactly.
// (Subnormal fp16 elements are multiples of 2^-24 and have fewer bits.)
//
// FP8 has a larger range, and fp32 elements have more bits, so a lane adds up
// such elements in the normative order. It multiplies by 1/4 last instead of
// first, which changes no sum, because elements and sums are multiples of
// 2^-140 and below 2^121. MX elements are bf16 numbers even before rounding.
//
// An exact zero is +0 in the normative order. Both methods add +0 to get that.
#ifndef QUANTD_KERNELS_CUDA_DECODE_WARP_BLOCKS_CUH_
#define QUANTD_KERNELS_CUDA_DECODE_WARP_BLOCKS_CUH_

#include <cstdint>

#include "kernels/cuda/decode/decode.cuh"
#include "kernels/cuda/ptx/fragments.cuh"
#include "kernels/cuda/tile/warp_quads.cuh"

namespace quantd::cuda {

template <DType D, DType E>
__device__ __forceinline__ bool IsExactFactor(float factor) {
  const uint32_t bits = Scalar::Bits(factor) & kAbsMask;
  if constexpr (D == DType::kF16) {
    // log2 of a factor whose product with the largest code is finite.
    constexpr uint32_t kMost = E == DType::kE2M1x2 ? 13u
                               : E == DType::kE4M3 ? 7u
                                                   : 0u;
    return bits <= (127u + kMost) << 23;
  } else {
    constexpr uint32_t kLeast = (127u - 100u) << 23;
    constexpr uint32_t kMost = (127u + 100u) << 23;
    return bits == 0 || (bits >= kLeast && bits <= kMost);
  }
}
// Whether the fast methods are exact for a block with these codes and this
// factor: its elements are 0, or finite and, except for fp16, normal.
template <DType D, DType E>
__device__ __forceinline__ bool IsExact(const uint32_t* codes, float factor) {
  uint32_t any = 0;
  QUANTD_UNROLL
  for (int i = 0; i < kBlockWords<E>; ++i) any |= codes[i];
  const bool zeros =
      (any & (E == DType::kE2M1x2 ? 0x77777777u : 0x7F7F7F7Fu)) == 0;
  return IsPlain<E, kBlockWords<E>>(codes, factor) &&
         (zeros || IsExactFactor<D, E>(factor));
}

// Elements (i, k) and (i, k + 1) of the inverse rotation R: x[i] is the sum of
// R[i][k] * y[k] over k.
template <DType D>
__device__ __forceinline__ uint32_t RotationPair(const float* signs, int i,
                                                 int k) {
  const float sign = signs[i];
  return PackPair<D>(__popc(i & k) % 2 == 0 ? sign : -sign,
                     __popc(i & (k + 1)) % 2 == 0 ? sign : -sign);
}

// Rounds and packs two sums. An exact zero becomes +0.
template <DType D>
__device__ __forceinline__ uint32_t PackSums(float low, float high) {
  return PackPair<D>(__fadd_rn(low, 0.0f), __fadd_rn(high, 0.0f));
}

// Multiplies 16 values by their factor and undoes their rotation. IsExact must
// hold. `signs` are s[i] / 4.
template <DType D>
__device__ __forceinline__ void RotateInOrder(float factor,
                                              const float (&signs)[kBlock],
                                              float (&v)[kBlock]) {
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) v[i] = v[i] * factor;
  if constexpr (D == DType::kF16) RoundBlock<D>(v);
  Butterfly16<Scalar>(v);
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) {
    v[i] = Scalar::MulPlusZero(v[i], signs[i]);
  }
}

// Decodes any block with a single thread. If there are signs, rounds the values
// and then undoes their rotation.
template <DType D, DType E>
__device__ __forceinline__ RawBlock<D> DecodeAlone(const uint32_t* words,
                                                   float factor,
                                                   const float* signs) {
  float v[kBlock];
  QUANTD_UNROLL
  for (int i = 0; i < kBlock / 4; ++i) {
    DecodeFour<E>(FourOf<E>(words, i), v + 4 * i);
  }
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) v[i] = v[i] * factor;
  if (signs != nullptr) {
    RoundBlock<D>(v);
    RotateInverse<Scalar>(v, signs);
  }
  RawBlock<D> raw;
  PackRun<D, false>(v, kBlock, raw.words);
  return raw;
}

// Stores the first `count` elements of a block as a column.
template <DType D>
__device__ __forceinline__ void StoreColumn(const RawBlock<D>& raw, int count,
                                            int64_t pitch, std::byte* to) {
  constexpr int kPerWord = 4 / kSizeOf<D>;
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) {
    if (i < count) {
      StoreBits<D>(raw.words[i / kPerWord] >> (16 * (i % kPerWord)), to);
    }
    to += pitch;
  }
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_DECODE_WARP_BLOCKS_CUH_
