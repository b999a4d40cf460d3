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

// The larger magnitude in each half of two words of magnitudes. NaN if either
// is NaN.
__device__ __forceinline__ uint32_t LargerOf(uint32_t a, uint32_t b) {
  uint32_t larger;
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  return larger;
}
// The largest magnitude of the low halves, and of the high halves, of kCount
// words from word kFirst on.
template <int kFirst, int kCount, int N>
__device__ __forceinline__ uint32_t LargestOfSome(const uint32_t (&w)[N]) {
  if constexpr (kCount == 1) {
    return w[kFirst] & 0x7FFF7FFFu;
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

// E2M1 codes. The code of y = |x| m is the smallest of 2y, y + 2 and y / 2 + 4,
// rounded to nearest even. Rounding is monotone, so each of the three can be
// rounded separately. Adding 1024 to it in fp16 rounds once, and leaves the
// code in the low bits below a known exponent.
//
// fp16 instructions take two elements at a time, but m does not fit into fp16.
// An approximation c is enough: x is a bf16, and the code changes at seven
// thresholds, each between two neighbouring bf16. If c keeps all thresholds
// between the same neighbours, it gives the same codes for all x. Let x' be the
// fp16 with x's seven bits of mantissa, plus a constant number of eighths of a
// bf16's last place. For nearly every m there is a factor c of x'. There may be
// none if m puts many bf16 exactly on a threshold. c and x' are fp16, and fused
// multiply-adds use their exact product.
struct alignas(8) CodeFit {
  uint16_t twice;   // 2c
  uint16_t least;   // smaller magnitudes have the code of this one
  uint32_t offset;  // a word of two magnitudes * 8 + offset is a word of two x'
};
// The numbers of a CodeFit, each in both halves of a word.
struct FitWords {
  uint32_t twice;
  uint32_t least;
  uint32_t offset;

  __device__ __forceinline__ explicit FitWords(uint2 words) {
    twice = __byte_perm(words.x, 0, 0x1010);
    least = __byte_perm(words.x, 0, 0x3232);
    offset = words.y;
  }
};

__device__ __forceinline__ uint32_t FusedHalves(uint32_t a, uint32_t b,
                                                uint32_t c) {
  uint32_t sums;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sums) : "r"(a), "r"(b), "r"(c));
  return sums;
}

// Codes of the magnitudes of two elements, in the low bytes of the halves.
__device__ __forceinline__ uint32_t CodePair(uint32_t magnitudes,
                                             const FitWords& fit) {
  const uint32_t x = __vmaxu2(magnitudes, fit.least) * 8u + fit.offset;
  const uint32_t a = FusedHalves(x, fit.twice, 0x64006400u);
  const uint32_t b = FusedHalves(x, fit.twice - 0x04000400u, 0x64026402u);
  const uint32_t c = FusedHalves(x, fit.twice - 0x08000800u, 0x64046404u);
  return __vimin3_u16x2(a, b, c);
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
  return (even & 0x0F0F0F0Fu) | (odd & 0xF0F0F0F0u);
}

// The codes of four elements with their signs, in bytes, in the order 0 2 1 3.
template <typename Rule>
__device__ __forceinline__ uint32_t CodeBytes(uint32_t w0, uint32_t w1,
                                              const Rule& rule) {
  const uint32_t codes = __byte_perm(CodePair(w0 & 0x7FFF7FFFu, rule),
                                     CodePair(w1 & 0x7FFF7FFFu, rule), 0x6240);
  return codes | (SignBytes(w0, w1) & 0x08080808u);
}
// The codes of a block, four bits each.
template <typename Rule>
__device__ __forceinline__ uint2 CodesUnder(const Words& x, const Rule& rule) {
  uint32_t words[2];
  QUANTD_UNROLL
  for (int h = 0; h < 2; ++h) {
    const uint32_t* w = x.w + 4 * h;
    const uint32_t first = CodeBytes(w[0], w[1], rule);
    const uint32_t second = CodeBytes(w[2], w[3], rule);
    // Multiplying by 2^16 + 16 brings the four nibbles to the upper half.
    // (Multiplications use another pipe than byte permutations, which are a
    // bottleneck.)
    words[h] = __byte_perm(first * 0x10010u, second * 0x10010u, 0x7632);
  }
  return make_uint2(words[0], words[1]);
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_TILE_PACKED_CUH_
