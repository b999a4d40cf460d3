// Decodes codes to output elements, 16 bytes of output at a time. There is a
// fast path for finite values, and a generic path for all others.
#ifndef QUANTD_KERNELS_CUDA_DECODE_CODES_CUH_
#define QUANTD_KERNELS_CUDA_DECODE_CODES_CUH_

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "kernels/arith/codec.h"
#include "kernels/arith/e2m1.h"
#include "kernels/cuda/ptx/e2m1_words.cuh"
#include "kernels/cuda/tile/element.cuh"

namespace quantd::cuda {

// The number of codes in a unit. A unit is 16 bytes of output, so that a warp
// stores contiguous memory.
template <DType D>
inline constexpr int kUnit = 16 / kSizeOf<D>;
inline constexpr int kOutWords = 4;  // words of a unit

// Words of codes in a unit (a single word may be half used), and in a block.
template <DType D, DType E>
inline constexpr int kCodeWords = E == DType::kE2M1x2 || kUnit<D> == 4 ? 1 : 2;
template <DType E>
inline constexpr int kBlockWords = E == DType::kE2M1x2 ? 2 : 4;

// Rounds two values that are not NaN and packs them, the first into the low
// half.
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

// Rounds two values, which may be NaN, and packs them.
template <DType D>
__device__ __forceinline__ uint32_t EncodePair(float low, float high) {
  constexpr uint32_t kNan = D == DType::kBF16 ? kNanBits >> 16 : 0x7E00u;
  uint32_t pair = PackPair<D>(low, high);
  if (IsNan<Scalar>(low)) pair = (pair & 0xFFFF0000u) | kNan;
  if (IsNan<Scalar>(high)) pair = (pair & 0xFFFFu) | kNan << 16;
  return pair;
}
// Unpacks two values.
template <DType D>
__device__ __forceinline__ float2 UnpackPair(uint32_t bits) {
  static_assert(kIsHalf<D>);
  if constexpr (D == DType::kBF16) {
    return make_float2(Scalar::Float(bits << 16),
                       Scalar::Float(bits & 0xFFFF0000u));
  } else {
    return __half22float2(reinterpret_cast<const __half2&>(bits));
  }
}

__device__ __forceinline__ bool IsFinite(float x) {
  return (Scalar::Bits(x) & kAbsMask) < kInfBits;
}

// Rounds and packs `count` values, an even number. With kPlain no value may be
// NaN.
template <DType D, bool kPlain>
__device__ __forceinline__ void PackRun(const float* v, int count,
                                        uint32_t* words) {
  QUANTD_UNROLL
  for (int i = 0; i < count; ++i) {
    if constexpr (D == DType::kF32) {
      words[i] = kPlain ? Scalar::Bits(v[i]) : EncodeElement<D>(v[i]);
    } else if (i % 2 == 0) {
      words[i / 2] =
          kPlain ? PackPair<D>(v[i], v[i + 1]) : EncodePair<D>(v[i], v[i + 1]);
    }
  }
}

// Rounds values to the type of the output, as the inverse rotation expects
// them.
template <DType D>
__device__ __forceinline__ void RoundBlock(float (&v)[kBlock]) {
  if constexpr (kIsHalf<D>) {
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; i += 2) {
      const float2 pair = UnpackPair<D>(PackPair<D>(v[i], v[i + 1]));
      v[i] = pair.x;
      v[i + 1] = pair.y;
    }
  }
}

// The eight magnitudes of E2M1 times a factor, split into low and high bytes.
// PRMT looks up the bytes of four codes at a time.
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
  // Clears bit 3 of each selector, which would replicate a sign.
  const uint32_t select = codes & 0x77777777u;
  const uint32_t even = codes << 4;  // moves signs of even codes to bit 7 of a
                                     // byte
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

// Nonzero if one of four codes is NaN or Inf.
template <DType E>
__device__ __forceinline__ uint32_t SpecialBits(uint32_t codes) {
  constexpr uint32_t kStep = E == DType::kE4M3 ? 0x01010101u : 0x04040404u;
  return ((codes & 0x7F7F7F7Fu) + kStep) & 0x80808080u;
}

// Decodes the two codes in the low half of a word. The result of NaN is
// undefined.
template <DType E>
__device__ __forceinline__ float2 DecodePair(uint32_t codes) {
  if constexpr (E == DType::kE5M2) {
    return UnpackPair<DType::kF16>(__byte_perm(codes, 0, 0x1404));
  } else {
#if __CUDA_ARCH__ >= 890
    uint32_t bits;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;"
        : "=r"(bits)
        : "h"(static_cast<uint16_t>(codes)));
    return UnpackPair<DType::kF16>(bits);
#else
    return make_float2(DecodeE4M3<Scalar>(codes & 0xFFu),
                       DecodeE4M3<Scalar>(codes >> 8 & 0xFFu));
#endif
  }
}

// Decodes the four codes in the low half of a word (E2M1) or in a word (FP8).
// The result of NaN is undefined.
template <DType E>
__device__ __forceinline__ void DecodeFour(uint32_t codes, float* v) {
  float2 low;
  float2 high;
  if constexpr (E == DType::kE2M1x2) {
    if constexpr (kConvertsE2M1) {
      const uint2 halves = HalvesOfE2M1(codes);
      low = UnpackPair<DType::kF16>(halves.x);
      high = UnpackPair<DType::kF16>(halves.y);
    } else {
      // Upper halves of fp16; the lower halves are zeros.
      const uint32_t signs = __byte_perm(codes << 4, codes, 0x5140);
      const uint32_t bytes =
          __byte_perm(0x3E3C3800u, 0x46444240u, codes & 0x7777u) |
          (signs & 0x80808080u);
      low = UnpackPair<DType::kF16>(__byte_perm(bytes, 0, 0x1404));
      high = UnpackPair<DType::kF16>(__byte_perm(bytes, 0, 0x3424));
    }
  } else {
    low = DecodePair<E>(codes);
    high = DecodePair<E>(codes >> 16);
  }
  v[0] = low.x;
  v[1] = low.y;
  v[2] = high.x;
  v[3] = high.y;
}
// Codes 4i to 4i + 3, for DecodeFour.
template <DType E>
__device__ __forceinline__ uint32_t FourOf(const uint32_t* words, int i) {
  return E == DType::kE2M1x2 ? words[i / 2] >> (16 * (i % 2)) : words[i];
}

// Whether DecodePlain is correct: the factor is finite, and no code is NaN or
// Inf.
template <DType E, int kWords>
__device__ __forceinline__ bool IsPlain(const uint32_t* words, float factor) {
  bool plain = IsFinite(factor);
  if constexpr (E != DType::kE2M1x2) {
    uint32_t special = 0;
    QUANTD_UNROLL
    for (int i = 0; i < kWords; ++i) special |= SpecialBits<E>(words[i]);
    plain &= special == 0;
  }
  return plain;
}

// Decodes units of codes, which must be plain if kPlain. The factor of code i
// is factors[i * kStride].
template <DType D, DType E, int kUnits, int kStride, bool kPlain>
__device__ __forceinline__ void DecodeBy(const uint32_t* words,
                                         const float* factors, uint32_t* out) {
  QUANTD_UNROLL
  for (int i = 0; i < kUnits * kUnit<D>; i += 4) {
    float v[4];
    DecodeFour<E>(FourOf<E>(words, i / 4), v);
    QUANTD_UNROLL
    for (int j = 0; j < 4; ++j) v[j] = v[j] * factors[(i + j) * kStride];
    PackRun<D, kPlain>(v, 4, out + i * kSizeOf<D> / 4);
  }
}

// Decodes units of plain codes with a common factor.
template <DType D, DType E, int kUnits>
__device__ __forceinline__ void DecodePlain(const uint32_t* words, float factor,
                                            uint32_t* out) {
  if constexpr (E == DType::kE2M1x2 && kIsHalf<D>) {
    const MagnitudeTable table = MakeMagnitudes<D>(factor);
    QUANTD_UNROLL
    for (int i = 0; i < kUnits; ++i) {
      LookUp(table, words[i], out + i * kOutWords);
    }
  } else {
    DecodeBy<D, E, kUnits, 0, true>(words, &factor, out);
  }
}

// Stores the first `count` elements of a unit or, if `whole`, all of them to an
// aligned address.
template <DType D>
__device__ __forceinline__ void StoreUnit(const uint32_t* words, bool whole,
                                          int64_t count, std::byte* to) {
  if (whole) {
    *reinterpret_cast<uint4*>(to) =
        make_uint4(words[0], words[1], words[2], words[3]);
    return;
  }
  constexpr int kPerWord = 4 / kSizeOf<D>;
  QUANTD_UNROLL
  for (int i = 0; i < kUnit<D>; ++i) {
    if (i < count) {
      StoreBits<D>(words[i / kPerWord] >> (16 * (i % kPerWord)),
                   to + i * kSizeOf<D>);
    }
  }
}

}  // namespace quantd::cuda

#endif  // QUANTD_KERNELS_CUDA_DECODE_CODES_CUH_
