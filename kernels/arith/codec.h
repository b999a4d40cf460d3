// Conversion between element types and fp32, over a lane type
// (kernels/arith/lanes.h).
//
// Every encoder rounds to nearest, ties to even. The formats are those of the
// OCP FP8 and MX specifications and IEEE 754, restated in
// kernels/plan/FORMATS.md.
#ifndef QUANTD_KERNELS_ARITH_CODEC_H_
#define QUANTD_KERNELS_ARITH_CODEC_H_

#include <cstdint>

#include "kernels/arith/lanes.h"

namespace quantd {
inline namespace QUANTD_ARITH {

inline constexpr uint32_t kAbsMask = 0x7FFFFFFF;
inline constexpr uint32_t kInfBits = 0x7F800000;
// The only NaN that the arithmetic produces, on every device.
inline constexpr uint32_t kNanBits = 0x7FC00000;
inline constexpr uint32_t kFltMaxBits = 0x7F7FFFFF;

template <typename L>
QUANTD_FN auto IsNan(typename L::F x) {
  return (L::Bits(x) & kAbsMask) > kInfBits;
}

// bf16: the upper half of fp32. The code is in the low 16 bits.
template <typename L>
QUANTD_FN typename L::F DecodeBf16(typename L::U code) {
  return L::Float(code << 16);
}

// The fp32 value of bf16(x). Not for NaN.
template <typename L>
QUANTD_FN typename L::F RoundToBf16(typename L::F x) {
  const typename L::U u = L::Bits(x);
  return L::Float((u + 0x7FFFu + ((u >> 16) & 1u)) & 0xFFFF0000u);
}

template <typename L>
QUANTD_FN typename L::U EncodeBf16(typename L::F x) {
  using U = typename L::U;
  const U rounded = L::Bits(RoundToBf16<L>(x)) >> 16;
  const U nan = U{} + (kNanBits >> 16);
  return IsNan<L>(x) ? nan : rounded;
}

// fp16: the code is in the low 16 bits.
template <typename L>
QUANTD_FN typename L::F DecodeF16(typename L::U code) {
  using U = typename L::U;
  if constexpr (L::kConvertsHalves) return L::DecodeHalves(L::LowHalves(code));
  const U sign = (code & 0x8000u) << 16;
  const U magnitude = (code & 0x7FFFu) << 13;
  // Rebiases the exponent by an exact multiplication, subnormals included.
  const U finite = L::Bits(L::Float(magnitude) * 0x1p112f);
  const U special = magnitude | kInfBits;
  return L::Float(sign | (magnitude >= 0x0F800000u ? special : finite));
}

template <typename L>
QUANTD_FN typename L::U EncodeF16(typename L::F x) {
  using F = typename L::F;
  using U = typename L::U;
  const U bits = L::Bits(x);
  const U magnitude = bits & kAbsMask;
  if constexpr (L::kConvertsHalves) {
    const U nan = U{} + 0x7E00u;
    return magnitude > kInfBits ? nan : L::WidenHalves(L::EncodeHalves(x));
  }
  // Below 2^-14 this addition leaves the subnormal code in the low bits.
  const F shifted = L::Float(magnitude) + 0.5f;
  const U subnormal = L::Bits(shifted) - 0x3F000000u;
  const U normal =
      (magnitude + 0xFFFu + ((magnitude >> 13) & 1u) - (112u << 23)) >> 13;
  const U zero{};
  U code = magnitude < 0x38800000u ? subnormal : normal;
  code = magnitude >= 0x477FF000u ? zero + 0x7C00u : code;
  code |= (bits >> 16) & 0x8000u;
  return magnitude > kInfBits ? zero + 0x7E00u : code;
}

// E4M3 of a value that is >= 0 and not NaN; saturates at 448 (0x7E).
template <typename L>
QUANTD_FN typename L::U EncodeE4M3Positive(typename L::F x) {
  using U = typename L::U;
  const U bits = L::Bits(x);
  // The last place of 2^14 is 2^-9, the step of the E4M3 subnormals.
  const U subnormal = L::Bits(x + 16384.0f) & 0xFu;
  const U normal = (bits + 0x7FFFFu + ((bits >> 20) & 1u) - (120u << 23)) >> 20;
  const U zero{};
  const U code = bits < 0x3C800000u ? subnormal : normal;
  return bits >= 0x43E00000u ? zero + 0x7Eu : code;
}

// E4M3 code (8 bits) to fp32.
template <typename L>
QUANTD_FN typename L::F DecodeE4M3(typename L::U code) {
  using U = typename L::U;
  const U magnitude = (code & 0x7Fu) << 20;
  const U finite = L::Bits(L::Float(magnitude) * 0x1p120f);
  const U zero{};
  const U value = (code & 0x7Fu) == 0x7Fu ? zero + kNanBits : finite;
  return L::Float(value | (code & 0x80u) << 24);
}

// E4M3 of any value; NaN is 0x7F.
template <typename L>
QUANTD_FN typename L::U EncodeE4M3(typename L::F x) {
  using U = typename L::U;
  const U bits = L::Bits(x);
  const U code =
      EncodeE4M3Positive<L>(L::Float(bits & kAbsMask)) | ((bits >> 24) & 0x80u);
  const U nan = U{} + 0x7Fu;
  return IsNan<L>(x) ? nan : code;
}

// E5M2 of any value; saturates at 57344 (0x7B), NaN is 0x7F.
template <typename L>
QUANTD_FN typename L::U EncodeE5M2(typename L::F x) {
  using U = typename L::U;
  const U bits = L::Bits(x);
  const U magnitude = bits & kAbsMask;
  // The last place of 2^7 is 2^-16, the step of the E5M2 subnormals.
  const U subnormal = L::Bits(L::Float(magnitude) + 128.0f) & 0xFu;
  const U normal =
      (magnitude + 0xFFFFFu + ((magnitude >> 21) & 1u) - (112u << 23)) >> 21;
  const U zero{};
  U code = magnitude < 0x38800000u ? subnormal : normal;
  code = magnitude >= 0x47600000u ? zero + 0x7Bu : code;
  code |= (bits >> 24) & 0x80u;
  return magnitude > kInfBits ? zero + 0x7Fu : code;
}

// The E4M3 (kMantissa = 3) or E5M2 (2) code of y >= 0 in the seven low bits;
// the bits from 7 to 22 are zero and those above are undefined. Saturates;
// undefined for NaN.
//
// A single addition rounds. The last place of the number that is added to y is
// the step between codes in y's binade. An offset makes the low bits of the sum
// the code.
template <typename L, int kMantissa>
QUANTD_FN typename L::U EncodeFp8Magnitude(typename L::F y) {
  using U = typename L::U;
  constexpr bool kE4M3 = kMantissa == 3;
  // The bits of 448 and 2^-6, or of 57344 and 2^-14.
  constexpr uint32_t kLargest = kE4M3 ? 0x43E00000u : 0x47600000u;
  constexpr uint32_t kSmallestNormal = kE4M3 ? 0x3C800000u : 0x38800000u;
  constexpr uint32_t kCodesBelow = (kSmallestNormal >> 23) << kMantissa;
  const U magnitude = L::Min(L::Bits(y), U{} + kLargest);
  const U binade = L::Max(magnitude, U{} + kSmallestNormal) & kInfBits;
  const U magic = binade + (binade >> (23 - kMantissa)) +
                  (((23u - kMantissa) << 23) - kCodesBelow);
  return L::Bits(L::Float(magnitude) + L::Float(magic));
}

// E5M2 code (8 bits) to fp32: the upper half of an fp16.
template <typename L>
QUANTD_FN typename L::F DecodeE5M2(typename L::U code) {
  const typename L::F v = DecodeF16<L>(code << 8);
  const typename L::U nan = typename L::U{} + kNanBits;
  return L::Float(IsNan<L>(v) ? nan : L::Bits(v));
}

// E8M0 code to fp32: 2^(code - 127), NaN for 0xFF.
template <typename L>
QUANTD_FN typename L::F DecodeE8M0(typename L::U code) {
  using U = typename L::U;
  const U zero{};
  U bits = code << 23;
  bits = code == 0u ? zero + 0x00400000u : bits;
  return L::Float(code == 0xFFu ? zero + kNanBits : bits);
}

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_CODEC_H_
