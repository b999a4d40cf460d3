// Blocks of 16 bf16 as they lie in memory, two to a word, and their way into
// NVFP4 without unpacking more than it takes. The fast half of the arithmetic:
// it serves blocks of ordinary numbers whose scale is a normal one, and says
// when a block is not; the generic functions of kernels/encode.h do the rest.
// kernels/cuda/ENCODE_NVFP4.md counts the operations.
#ifndef QUANTD_KERNELS_CUDA_PACKED_CUH_
#define QUANTD_KERNELS_CUDA_PACKED_CUH_

#include <cstddef>
#include <cstdint>

#include "kernels/encode.h"

namespace quantd::cuda {

// Element 2k in the low half of word k.
struct Words {
  uint32_t w[kBlock / 2];
};

// Every fp32 that is a bf16.
__device__ __forceinline__ float LowOf(uint32_t word) {
  return __uint_as_float(word << 16);
}
__device__ __forceinline__ float HighOf(uint32_t word) {
  return __uint_as_float(word & 0xFFFF0000u);
}
__device__ __forceinline__ void Unpack(const Words& x, float (&v)[kBlock]) {
  QUANTD_UNROLL
  for (int i = 0; i < kBlock / 2; ++i) {
    v[2 * i] = LowOf(x.w[i]);
    v[2 * i + 1] = HighOf(x.w[i]);
  }
}

// Both halves rounded to nearest; a NaN is some NaN.
__device__ __forceinline__ uint32_t PackBf16(float low, float high) {
  uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
}
__device__ __forceinline__ void Pack(const float (&v)[kBlock], Words* x) {
  QUANTD_UNROLL
  for (int i = 0; i < kBlock / 2; ++i) {
    x->w[i] = PackBf16(v[2 * i], v[2 * i + 1]);
  }
}

// The larger ones of the halves of two words of magnitudes; NaN is larger than
// everything.
__device__ __forceinline__ uint32_t LargerOf(uint32_t a, uint32_t b) {
  uint32_t larger;
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
  return larger;
}
// The largest magnitude among all low halves, and among all high halves, of
// words from kFirst on.
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
// The larger half of such a word as fp32 bits.
__device__ __forceinline__ uint32_t LargerHalf(uint32_t word) {
  const uint32_t high = word & 0xFFFF0000u;
  const uint32_t low = word << 16;
  return high > low ? high : low;
}

// E4M3 of a number that is >= 0 and below 464.
__device__ __forceinline__ uint32_t E4M3Of(float x) {
#if __CUDA_ARCH__ >= 890
  uint16_t codes;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;"
      : "=h"(codes)
      : "f"(0.0f), "f"(x));
  return codes;
#else
  return EncodeE4M3Positive<Scalar>(x);
#endif
}

// Eight E2M1 magnitudes of the values v * m, which are below 7, in a word.
//
// As a function of y the code is the smallest of the three lines 2y, y + 2 and
// y / 2 + 4, rounded to nearest even. Rounding is monotone, so each line may be
// rounded on its own: by the one rounding of its addition to 2^23, after which
// the code stands in the low bits under a known exponent.
struct E2M1Magnitudes {
  // What the exponents of eight sums add up to, taken off beforehand.
  uint32_t word = 0u - 0x4B000000u * 0x11111111u;

  __device__ __forceinline__ void Add(float magnitude, int place) {
    const float a = __fmaf_rn(magnitude, 2.0f, 0x1p23f);
    const float b = __fadd_rn(magnitude, 0x1p23f + 2.0f);
    const float c = __fmaf_rn(magnitude, 0.5f, 0x1p23f + 4.0f);
    const int least =
        __vimin3_s32(__float_as_int(a), __float_as_int(b), __float_as_int(c));
    word += static_cast<uint32_t>(least) << (4 * place);
  }
};

// Signs of the low halves of a and b, then of their high halves: each one all
// over a byte.
__device__ __forceinline__ uint32_t SignBytes(uint32_t a, uint32_t b) {
  uint32_t bytes;
  asm("prmt.b32 %0, %1, %2, 0xFBD9;" : "=r"(bytes) : "r"(a), "r"(b));
  return bytes;
}

// The signs of eight elements in the high bits of nibbles; other bits are not
// for use.
__device__ __forceinline__ uint32_t SignsOf(uint32_t w0, uint32_t w1,
                                            uint32_t w2, uint32_t w3) {
  const uint32_t first = SignBytes(w0, w1);   // of elements 0 2 1 3
  const uint32_t second = SignBytes(w2, w3);  // of elements 4 6 5 7
  const uint32_t even = __byte_perm(first, second, 0x5410);
  const uint32_t odd = __byte_perm(first, second, 0x7632);
  return (even & 0x0F0F0F0Fu) | (odd & 0xF0F0F0F0u);
}

// Sixteen E2M1 codes of x * m, all |x * m| below 7.
__device__ __forceinline__ uint2 CodesOf(const Words& x, float m) {
  uint32_t words[2];
  QUANTD_UNROLL
  for (int h = 0; h < 2; ++h) {
    const uint32_t* w = x.w + 4 * h;
    E2M1Magnitudes codes;
    QUANTD_UNROLL
    for (int i = 0; i < 4; ++i) {
      codes.Add(fabsf(LowOf(w[i])) * m, 2 * i);
      codes.Add(fabsf(HighOf(w[i])) * m, 2 * i + 1);
    }
    words[h] = codes.word | (SignsOf(w[0], w[1], w[2], w[3]) & 0x88888888u);
  }
  return make_uint2(words[0], words[1]);
}

// What a group's amax decides for a copy, in shared memory: there are only so
// many scales, and a division for each is cheaper than one for each block.
struct Multipliers {
  float of[128];  // by E4M3 code
  float s_inv6;   // block maximum to what its scale should be

  // All threads must call; the caller synchronizes before and after.
  __device__ __forceinline__ void Fill(float amax, float f6) {
    const float s = Nvfp4EncodeScaleOf<Scalar>(amax, f6);
    for (unsigned i = threadIdx.x; i < 128; i += blockDim.x) {
      of[i] = Nvfp4MultiplierOf<Scalar>(i, 1.0f / s);
    }
    if (threadIdx.x == 0) s_inv6 = s * Scalar::Float(0x3E2AAAABu);
  }
};

// Whether a block whose scale should be `wanted`, with largest magnitude `max`
// (fp32 bits), is one for the generic functions: NaN or Inf in it, or a scale
// that is no normal E4M3 number, under which values may reach 7 and must be
// clamped.
__device__ __forceinline__ bool IsRare(uint32_t max, float wanted) {
  const uint32_t bits = __float_as_uint(wanted);
  return bits - 0x3C800000u >= 0x43E80000u - 0x3C800000u && max != 0;
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_PACKED_CUH_
