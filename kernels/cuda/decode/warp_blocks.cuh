// Blocks of 16 elements, one in each lane of a warp: transposing and rotating
// them. The warp gets them back as pieces of rows or as fragments of matrices.
//
// There are two fast ways to undo a rotation of finite codes, both equal to
// RotateInverse of kernels/arith/hadamard.h in every bit if IsExact holds.
//
// E2M1 with 16-bit output is rotated by tensor cores. Let 2^e <= |factor| <
// 2^(e+1) and p be the precision of the elements, 8 or 11 bits. A block's
// elements are 0, or from 0.5 to 6 times the factor, rounded: multiples of
// 2^(e-p), at most 12 * 2^e. Any sum of their quarters, in any order, is a
// multiple of 2^(e-p-2) below 2^(e+6): p + 8 <= 19 bits, exact in fp32 and in
// the accumulators of tensor cores. (Subnormal fp16 elements are multiples of
// 2^-24 of fewer bits.)
//
// FP8 spans more, and fp32 elements have more bits, so a lane adds them up in
// the normative order. It multiplies by a quarter last instead of first, which
// changes no sum: elements and sums are multiples of 2^-140 and below 2^121. MX
// elements are bf16 without being rounded.
//
// There remains the sign of an exact zero, which the butterfly makes +0; so
// does adding +0.
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
// Whether the fast ways rotate a block of these codes exactly under that
// factor: its elements are finite and, except for fp16, normal. Zeros are
// allowed.
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

// Elements (i, k) and (i, k + 1) of R: x[i] is the sum of R[i][k] * y[k].
template <DType D>
__device__ __forceinline__ uint32_t RotationPair(const float* signs, int i,
                                                 int k) {
  const float sign = signs[i];
  return PackPair<D>(__popc(i & k) % 2 == 0 ? sign : -sign,
                     __popc(i & (k + 1)) % 2 == 0 ? sign : -sign);
}

// Packs two sums, rounded; an exact zero becomes +0.
template <DType D>
__device__ __forceinline__ uint32_t PackSums(float low, float high) {
  return PackPair<D>(__fadd_rn(low, 0.0f), __fadd_rn(high, 0.0f));
}

// Undoes the rotation of 16 values if that is exact; they are not multiplied by
// their factor yet. `signs` are s[i] / 4.
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

// Decodes any block with a single thread, without neighbours or bounds. If
// there are signs, the inverse rotation takes the values that would be stored
// without it.
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

// Stores the first `count` elements of a block below each other.
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
