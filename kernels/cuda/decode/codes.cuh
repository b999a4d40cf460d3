// Turns codes into elements of the output, eight at a time: in a fast way where
// all is finite, and in the generic way for anything.
#ifndef QUANTD_KERNELS_CUDA_DECODE_CODES_CUH_
#define QUANTD_KERNELS_CUDA_DECODE_CODES_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "kernels/arith/codec.h"
#include "kernels/arith/e2m1.h"
#include "kernels/cuda/tile/element.cuh"

namespace quantd::cuda {

inline constexpr int kUnit = 8;  // how many codes are decoded together

// Words of `count` codes, and of `count` elements of the output.
template <DType E>
inline constexpr int kCodeWords = E == DType::kE2M1x2 ? 1 : 2;  // of a unit
template <DType D>
inline constexpr int kOutWords = kUnit* kSizeOf<D> / 4;  // likewise

// Rounds two values, neither of them NaN, and puts the first into the low half.
template <DType D>
__device__ __forceinline__ uint32_t PackPair(float low, float high) {
  static_assert(kIsHalf<D>);
  if constexpr (D == DType::kBF16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const uint32_t&>(pair);
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    return reinterpret_cast<const uint32_t&>(pair);
  }
}

__device__ __forceinline__ bool IsFinite(float x) {
  return (Scalar::Bits(x) & kAbsMask) < kInfBits;
}

// Decodes any codes by any factors, as the other devices do it. The factor of
// code i is factors[i * kStride].
template <DType D, DType E, int kStride>
__device__ __forceinline__ void DecodeAny(const uint32_t* words,
                                          const float* factors, uint32_t* out) {
  QUANTD_UNROLL
  for (int i = 0; i < kUnit; ++i) {
    float v;
    if constexpr (E == DType::kE2M1x2) {
      v = DecodeE2M1<Scalar>((words[0] >> (4 * i)) & 0xFu);
    } else {
      const uint32_t code = (words[i / 4] >> (8 * (i % 4))) & 0xFFu;
      v = E == DType::kE4M3 ? DecodeE4M3<Scalar>(code)
                            : DecodeE5M2<Scalar>(code);
    }
    const uint32_t bits = EncodeElement<D>(v * factors[i * kStride]);
    if constexpr (D == DType::kF32) {
      out[i] = bits;
    } else {
      out[i / 2] = i % 2 == 0 ? bits : out[i / 2] | bits << 16;
    }
  }
}

// The eight magnitudes of E2M1 under one factor, as their low and their high
// bytes: PRMT looks up those of four codes at a time.
struct MagnitudeTable {
  uint32_t low[2];
  uint32_t high[2];
};
template <DType D>
__device__ __forceinline__ MagnitudeTable MakeMagnitudes(float factor) {
  const uint32_t a = PackPair<D>(0.0f * factor, 0.5f * factor);
  const uint32_t b = PackPair<D>(factor, 1.5f * factor);
  const uint32_t c = PackPair<D>(2.0f * factor, 3.0f * factor);
  const uint32_t d = PackPair<D>(4.0f * factor, 6.0f * factor);
  return {{__byte_perm(a, b, 0x6420), __byte_perm(c, d, 0x6420)},
          {__byte_perm(a, b, 0x7531), __byte_perm(c, d, 0x7531)}};
}
__device__ __forceinline__ void LookUp(const MagnitudeTable& table,
                                       uint32_t codes, uint32_t* out) {
  // Bit 3 of a selector would spread a sign.
  const uint32_t select = codes & 0x77777777u;
  const uint32_t even = codes << 4;  // signs of even codes to bit 7 of a byte
  QUANTD_UNROLL
  for (int i = 0; i < 2; ++i) {
    const uint32_t four = i == 0 ? select : select >> 16;
    const uint32_t low = __byte_perm(table.low[0], table.low[1], four);
    const uint32_t signs = __byte_perm(even, codes, i == 0 ? 0x5140 : 0x7362);
    const uint32_t high =
        __byte_perm(table.high[0], table.high[1], four) ^ (signs & 0x80808080u);
    out[2 * i] = __byte_perm(low, high, 0x5140);
    out[2 * i + 1] = __byte_perm(low, high, 0x7362);
  }
}

// Whether one of four codes is NaN or Inf.
template <DType E>
__device__ __forceinline__ uint32_t SpecialBits(uint32_t codes) {
  constexpr uint32_t kStep = E == DType::kE4M3 ? 0x01010101u : 0x04040404u;
  return ((codes & 0x7F7F7F7Fu) + kStep) & 0x80808080u;
}

// Gives the values of the two codes in the low half of a word, which are
// neither NaN nor Inf.
template <DType E>
__device__ __forceinline__ float2 DecodePair(uint32_t codes) {
  __half2 pair;
  if constexpr (E == DType::kE5M2) {
    const uint32_t bits = __byte_perm(codes, 0, 0x1404);
    pair = reinterpret_cast<const __half2&>(bits);
  } else {
#if __CUDA_ARCH__ >= 890
    uint32_t bits;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;"
        : "=r"(bits)
        : "h"(static_cast<uint16_t>(codes)));
    pair = reinterpret_cast<const __half2&>(bits);
#else
    return make_float2(DecodeE4M3<Scalar>(codes & 0xFFu),
                       DecodeE4M3<Scalar>(codes >> 8 & 0xFFu));
#endif
  }
  return __half22float2(pair);
}

// Whether DecodePlain will do: nothing is NaN, and only overflow makes Inf.
template <DType E, int kUnits>
__device__ __forceinline__ bool IsPlain(const uint32_t* words, float factor) {
  bool plain = IsFinite(factor);
  if constexpr (E != DType::kE2M1x2) {
    uint32_t special = 0;
    QUANTD_UNROLL
    for (int i = 0; i < 2 * kUnits; ++i) special |= SpecialBits<E>(words[i]);
    plain &= special == 0;
  }
  return plain;
}

// Decodes a unit of FP8 codes. The factor of code i is factors[i * kStride].
template <DType D, DType E, int kStride>
__device__ __forceinline__ void DecodePlainFp8(const uint32_t* words,
                                               const float* factors,
                                               uint32_t* out) {
  QUANTD_UNROLL
  for (int i = 0; i < kUnit; i += 2) {
    const float2 v = DecodePair<E>(words[i / 4] >> (8 * (i % 4)));
    const float low = v.x * factors[i * kStride];
    const float high = v.y * factors[(i + 1) * kStride];
    if constexpr (D == DType::kF32) {
      out[i] = Scalar::Bits(low);
      out[i + 1] = Scalar::Bits(high);
    } else {
      out[i / 2] = PackPair<D>(low, high);
    }
  }
}

// Decodes units of codes that share one factor.
template <DType D, DType E, int kUnits>
__device__ __forceinline__ void DecodePlain(const uint32_t* words, float factor,
                                            uint32_t* out) {
  if constexpr (E != DType::kE2M1x2) {
    QUANTD_UNROLL
    for (int i = 0; i < kUnits; ++i) {
      DecodePlainFp8<D, E, 0>(words + 2 * i, &factor, out + i * kOutWords<D>);
    }
  } else if constexpr (kIsHalf<D>) {
    const MagnitudeTable table = MakeMagnitudes<D>(factor);
    QUANTD_UNROLL
    for (int i = 0; i < kUnits; ++i) {
      LookUp(table, words[i], out + i * kOutWords<D>);
    }
  } else {
    QUANTD_UNROLL
    for (int i = 0; i < kUnits * kUnit; ++i) {
      const uint32_t code = words[i / kUnit] >> (4 * (i % kUnit)) & 0xFu;
      out[i] = Scalar::Bits(DecodeE2M1<Scalar>(code) * factor);
    }
  }
}

// Stores the first `count` elements of a unit, or, where `whole`, all of them
// to an aligned address.
template <DType D>
__device__ __forceinline__ void StoreUnit(const uint32_t* words, bool whole,
                                          int64_t count, std::byte* to) {
  if (whole) {
    QUANTD_UNROLL
    for (int i = 0; i < kOutWords<D> / 4; ++i) {
      reinterpret_cast<uint4*>(to)[i] = make_uint4(
          words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
    }
    return;
  }
  constexpr int kPerWord = 4 / kSizeOf<D>;
  QUANTD_UNROLL
  for (int i = 0; i < kUnit; ++i) {
    if (i < count) {
      StoreBits<D>(words[i / kPerWord] >> (16 * (i % kPerWord)),
                   to + i * kSizeOf<D>);
    }
  }
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_DECODE_CODES_CUH_
