// Blocks of 16 bf16 (fp16 where stated) as in memory, two to a word, and their
// encoding to NVFP4 with as little unpacking as possible. These functions are
// for blocks of ordinary numbers with a normal scale. The generic functions of
// kernels/arith/encode.h encode all other blocks.
// kernels/cuda/encode/nvfp4/NOTES.md counts the operations.
#ifndef QUANTD_KERNELS_CUDA_TILE_PACKED_CUH_
#define QUANTD_KERNELS_CUDA_TILE_PACKED_CUH_

#include <cstddef>
#include <cstdint>

#include "kernels/arith/codec.h"
#include "kernels/cuda/ptx/half_words.cuh"
#include "kernels/cuda/tile/element.cuh"

namespace quantd::cuda {

// The elements of a block: element 2k is in the low half of word k.
struct Words {
  uint32_t w[kBlock / 2];
};

template <DType D = DType::kBF16>
__device__ __forceinline__ void Unpack(const Words& x, float (&v)[kBlock]) {
  QUANTD_UNROLL
  for (int i = 0; i < kBlock / 2; ++i) {
    v[2 * i] = LowOf<D>(x.w[i]);
    v[2 * i + 1] = HighOf<D>(x.w[i]);
  }
}

// Packs two values, rounded to nearest. NaN becomes a NaN with any bits.
__device__ __forceinline__ uint32_t PackBf16(float low, float high) {
  uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
// Packs two values as bf16 or fp16.
template <DType D>
__device__ __forceinline__ uint32_t Packed(float low, float high) {
  if constexpr (D == DType::kBF16) return PackBf16(low, high);
  uint32_t word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
__device__ __forceinline__ void Pack(const float (&v)[kBlock], Words* x) {
  QUANTD_UNROLL
  for (int i = 0; i < kBlock / 2; ++i) {
    x->w[i] = PackBf16(v[2 * i], v[2 * i + 1]);
  }
}

// The magnitudes of two bf16. (Clearing the signs by a mask would use the pipe
// that is the bottleneck.)
__device__ __forceinline__ uint32_t MagnitudesOf(uint32_t word) {
  uint32_t magnitudes;
  asm("abs.bf16x2 %0, %1;" : "=r"(magnitudes) : "r"(word));
  return magnitudes;
}

// The larger magnitude in each half of two words of magnitudes. NaN if either
// is NaN.
__device__ __forceinline__ uint32_t LargerOf(uint32_t a, uint32_t b) {
  uint32_t larger;
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  return larger;
}
// The largest magnitude of the low halves, and of the high halves, of kCount
// words of magnitudes from word kFirst on.
template <int kFirst, int kCount, int N>
__device__ __forceinline__ uint32_t LargestOfSome(const uint32_t (&w)[N]) {
  if constexpr (kCount == 1) {
    return w[kFirst];
  } else {
    return LargerOf(LargestOfSome<kFirst, kCount / 2>(w),
                    LargestOfSome<kFirst + kCount / 2, kCount / 2>(w));
  }
}
template <int N>
__device__ __forceinline__ uint32_t LargestOf(const uint32_t (&w)[N]) {
  return LargestOfSome<0, N>(w);
}
// The larger half of a word of magnitudes as fp32 bits.
template <DType D = DType::kBF16>
__device__ __forceinline__ uint32_t LargerHalf(uint32_t word) {
  const uint32_t high = word & 0xFFFF0000u;
  const uint32_t low = word << 16;
  const uint32_t larger = high > low ? high : low;
  if constexpr (D == DType::kBF16) return larger;
  return __float_as_uint(HighOf<D>(larger));
}

// The largest magnitude of a block as fp32 bits. NaN if the block holds NaN.
__device__ __forceinline__ uint32_t LargestMagnitudeOf(const Words& x) {
  uint32_t magnitudes[kBlock / 2];
  QUANTD_UNROLL
  for (int i = 0; i < kBlock / 2; ++i) magnitudes[i] = MagnitudesOf(x.w[i]);
  return LargerHalf(LargestOf(magnitudes));
}

// The E4M3 code of x, which is at least 0 and below 464.
__device__ __forceinline__ uint32_t E4M3Of(float x) {
#if __CUDA_ARCH__ >= 890
  uint32_t codes;
  asm("{ .reg .b16 code, zero; mov.b16 zero, 0;"
      " cvt.rn.satfinite.e4m3x2.f32 code, %1, %2; mov.b32 %0, {code, zero}; }"
      : "=r"(codes)
      : "f"(0.0f), "f"(x));
  return codes;
#else
  return EncodeE4M3Positive<Scalar>(x);
#endif
}

// E2M1 codes. In fp16 the bits of y / 2^14 are the E2M1 code of y and nine bits
// of fraction, because y / 2^14 is subnormal below y = 1. The code nearest to y
// = |x| m is this code, plus one if the fraction is a half or more.
//
// fp16 instructions take two elements at a time, but m does not fit into fp16.
// An approximation c is enough: x is a bf16, and the code changes at seven
// thresholds, each between two neighbouring bf16. If c keeps all thresholds
// between the same neighbours, it gives the same codes for all x. Let x' be the
// fp16 with x's seven bits of mantissa, plus a constant number of eighths of a
// bf16's last place. For nearly every m there are a factor c of x', a number of
// eighths and an addend d with which c x' + d, rounded once, gives the codes of
// all x. There may be none if m puts many bf16 exactly on a threshold.
struct alignas(8) CodeFit {
  uint16_t factor;  // c
  uint16_t addend;  // d
  uint32_t offset;  // a word of two magnitudes * 8 + offset is a word of two x'
};
// The low or the high half of a word, in both halves. Instructions for two fp16
// can take it from the word itself, which the compiler does not see if a byte
// permutation makes it.
__device__ __forceinline__ uint32_t LowTwice(uint32_t word) {
  uint32_t twice;
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {l, l}; }"
      : "=r"(twice)
      : "r"(word));
  return twice;
}
__device__ __forceinline__ uint32_t HighTwice(uint32_t word) {
  uint32_t twice;
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; mov.b32 %0, {h, h}; }"
      : "=r"(twice)
      : "r"(word));
  return twice;
}

// The numbers of a CodeFit, each in both halves of a word.
struct FitWords {
  uint32_t factor;
  uint32_t addend;
  uint32_t offset;
  uint32_t least;  // smaller magnitudes have the code of this one, 0

  // The high half of `max` is the largest magnitude of the block, or of several
  // with the same scale.
  __device__ __forceinline__ FitWords(uint2 words, uint32_t max)
      : factor(LowTwice(words.x)), addend(HighTwice(words.x)), offset(words.y) {
    // A 1024th of the maximum, whose y is close to 6. Without this limit c x' +
    // d could be negative, and x' could be no fp16.
    asm("fma.rn.bf16x2 %0, %1, %2, %3;"
        : "=r"(least)
        : "r"(HighTwice(max)), "r"(0x3A803A80u), "r"(0x80008000u));
  }
};

__device__ __forceinline__ uint32_t FusedHalves(uint32_t a, uint32_t b,
                                                uint32_t c) {
  uint32_t sums;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sums) : "r"(a), "r"(b), "r"(c));
  return sums;
}

// Codes and fractions of the magnitudes of two elements, one in each half. The
// code begins at bit 9.
__device__ __forceinline__ uint32_t FractionPair(uint32_t word,
                                                 const FitWords& fit) {
  uint32_t magnitudes;
  asm("max.bf16x2 %0, %1, %2;"
      : "=r"(magnitudes)
      : "r"(MagnitudesOf(word)), "r"(fit.least));
  return FusedHalves(magnitudes * 8u + fit.offset, fit.factor, fit.addend);
}

// The bits of `a` under the mask, and the others of `b`. (Masks of both would
// need two instructions.)
template <uint32_t kMask>
__device__ __forceinline__ uint32_t Chosen(uint32_t a, uint32_t b) {
  uint32_t bits;
  asm("lop3.b32 %0, %1, %2, %3, 0xCA;"
      : "=r"(bits)
      : "n"(kMask), "r"(a), "r"(b));
  return bits;
}

// Signs of the low halves of a and b, then of their high halves, each extended
// to a byte.
__device__ __forceinline__ uint32_t SignBytes(uint32_t a, uint32_t b) {
  uint32_t bytes;
  asm("prmt.b32 %0, %1, %2, 0xFBD9;" : "=r"(bytes) : "r"(a), "r"(b));
  return bytes;
}

// The signs of eight elements in the high bits of nibbles; other bits are
// undefined.
__device__ __forceinline__ uint32_t SignsOf(uint32_t w0, uint32_t w1,
                                            uint32_t w2, uint32_t w3) {
  const uint32_t first = SignBytes(w0, w1);   // elements 0 2 1 3
  const uint32_t second = SignBytes(w2, w3);  // elements 4 6 5 7
  const uint32_t even = __byte_perm(first, second, 0x5410);
  const uint32_t odd = __byte_perm(first, second, 0x7632);
  return Chosen<0x0F0F0F0Fu>(even, odd);
}

// The codes of a block, four bits each.
__device__ __forceinline__ uint2 CodesUnder(const Words& x,
                                            const FitWords& fit) {
  uint32_t words[2];
  QUANTD_UNROLL
  for (int h = 0; h < 2; ++h) {
    const uint32_t* w = x.w + 4 * h;
    uint32_t four[2];
    QUANTD_UNROLL
    for (int i = 0; i < 2; ++i) {
      // Codes and the first bit of their fractions, in bytes, in the order 0 2
      // 1 3.
      const uint32_t bytes = __byte_perm(
          FractionPair(w[2 * i], fit), FractionPair(w[2 * i + 1], fit), 0x7351);
      // Adding this bit to itself rounds. Multiplying by 2^15 + 8 brings the
      // four codes to the upper half, without a carry between them.
      // (Multiplications use another pipe than byte permutations, which are a
      // bottleneck.)
      four[i] = bytes * 0x8008u + 0x01010101u * 0x8008u;
    }
    words[h] = Chosen<0x77777777u>(__byte_perm(four[0], four[1], 0x7632),
                                   SignsOf(w[0], w[1], w[2], w[3]));
  }
  return make_uint2(words[0], words[1]);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_TILE_PACKED_CUH_
