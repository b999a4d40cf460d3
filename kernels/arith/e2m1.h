// Encoding and decoding of E2M1, two codes per byte, over a lane type
// (kernels/arith/lanes.h). Converts one value at a time or eight values per
// word, rounding to nearest or stochastically.
#ifndef QUANTD_KERNELS_ARITH_E2M1_H_
#define QUANTD_KERNELS_ARITH_E2M1_H_

#include <cstdint>

#include "kernels/arith/codec.h"
#include "kernels/arith/lanes.h"

namespace quantd {
inline namespace QUANTD_ARITH {

// Assumptions that PackE2M1 may make about its values.
enum class E2M1Input {
  kAny,              // saturate at 6
  kBelow7,           // |v * m| < 7, so rounding alone gives at most 6
  kUnroundedBelow7,  // as kBelow7, and rounds v to bf16 first
  kBf16Below7,       // as kBelow7; v are bf16, and the code of -0 has no sign
};

// The nibble of a byte that holds the even element: low or high.
enum class E2M1Order { kLowFirst, kHighFirst };

// The E2M1 code of y >= 0 in the three low bits; the bits from 3 to 22 are zero
// and those above are undefined. NaN gives 7 if y is clamped.
//
// A single addition rounds. The exponent of max(y, 1) selects a power of two
// whose last place is the E2M1 step of that binade (L::E2M1Magic). An offset
// makes the low bits of the sum the code.
template <typename L, bool kClamp>
QUANTD_FN typename L::U EncodeE2M1Magnitude(typename L::F y) {
  using U = typename L::U;
  const U six = U{} + 0x40C00000u;
  const U one = U{} + 0x3F800000u;
  const U magnitude = kClamp ? L::Min(L::Bits(y), six) : L::Bits(y);
  const U magic = L::E2M1Magic(L::Max(magnitude, one));
  return L::Bits(L::Float(magnitude) + L::Float(magic));
}

// The E2M1 number nearest to y >= 0, at most 6: adds as above, then subtracts
// the same number. NaN gives 6.
template <typename L>
QUANTD_FN typename L::F RoundToE2M1Magnitude(typename L::F y) {
  using F = typename L::F;
  using U = typename L::U;
  const U six = U{} + 0x40C00000u;
  const U one = U{} + 0x3F800000u;
  const U magnitude = L::Min(L::Bits(y), six);
  const F magic = L::Float(L::E2M1Magic(L::Max(magnitude, one)));
  return (L::Float(magnitude) + magic) - magic;
}

// The signs of eight values, at the positions of their codes' sign bits in a
// word.
template <typename L, E2M1Input kInput, E2M1Order kOrder>
QUANTD_FN typename L::U SignsOfEight(const typename L::F* v) {
  using U = typename L::U;
  constexpr int kFlip = kOrder == E2M1Order::kHighFirst ? 1 : 0;
  U signs{};
  // Handles two signs at a time, of elements i and i + 4, in the halves of a
  // word.
  QUANTD_UNROLL
  for (int j = 0; j < 4; ++j) {
    const int i = j ^ kFlip;
    U pair = L::JoinHighHalves(L::Bits(v[i]), L::Bits(v[i + 4]));
    // Subtracting 1 from the bits clears the sign of -0 and keeps the sign of
    // other negative numbers.
    if constexpr (kInput == E2M1Input::kBf16Below7) {
      pair = L::LessALastPlace16(pair);
    }
    signs = (signs >> 4) | (pair & 0x80008000u);
  }
  return signs;
}

// Eight E2M1 codes of v * m, m > 0, in a word from the low byte up; bit 3 of a
// nibble is the sign. NaN gives 7 with the sign of the NaN, which the caller
// clears.
template <typename L, E2M1Input kInput, E2M1Order kOrder = E2M1Order::kLowFirst>
QUANTD_FN typename L::U PackE2M1(const typename L::F* v, typename L::F m) {
  using U = typename L::U;
  U half[2] = {U{}, U{}};
  constexpr int kFlip = kOrder == E2M1Order::kHighFirst ? 1 : 0;
  QUANTD_UNROLL
  for (int i = 0; i < 8; ++i) {
    const U bits = L::Bits(v[i]);
    const U magnitude =
        kInput == E2M1Input::kUnroundedBelow7
            ? (bits + 0x7FFFu + ((bits >> 16) & 1u)) & 0x7FFF0000u
            : bits & kAbsMask;
    const U code = EncodeE2M1Magnitude<L, kInput == E2M1Input::kAny>(
        L::Float(magnitude) * m);
    // Bits above bit 22 of a sum never reach the low 16 bits.
    half[i / 4] |= code << (4 * (i % 4 ^ kFlip));
  }
  return (half[0] & 0xFFFFu) | (half[1] << 16) |
         SignsOfEight<L, kInput, kOrder>(v);
}

// E2M1 code of y with its sign, rounded to nearest; NaN is 7.
template <typename L>
QUANTD_FN typename L::U EncodeE2M1(typename L::F y) {
  using U = typename L::U;
  const U bits = L::Bits(y);
  const U code =
      (EncodeE2M1Magnitude<L, true>(L::Float(bits & kAbsMask)) & 7u) |
      ((bits >> 28) & 8u);
  const U seven = U{} + 7u;
  return IsNan<L>(y) ? seven : code;
}

// E2M1 code of y with its sign, rounded stochastically: `byte` / 256 of a step
// is added to the magnitude, which is then rounded down.
template <typename L>
QUANTD_FN typename L::U EncodeE2M1Stochastic(typename L::F y,
                                             typename L::U byte) {
  using F = typename L::F;
  using U = typename L::U;
  const U bits = L::Bits(y);
  const U six = U{} + 0x40C00000u;
  // Magnitudes beyond 6 saturate, whatever the random bits add.
  const U magnitude = L::Min(bits & kAbsMask, six);
  const F a = L::Float(magnitude);
  const U two = U{} + 0x3C000000u;   // 2 / 256
  const U one = U{} + 0x3B800000u;   // 1 / 256
  const U half = U{} + 0x3B000000u;  // 0.5 / 256
  U step = magnitude >= 0x40000000u ? one : half;
  step = magnitude >= 0x40800000u ? two : step;
  const U t = L::Bits(a + L::ToFloat(byte) * L::Float(step));
  // From 1 on, codes are the exponent and the first mantissa bit.
  const U zero{};
  const U one_code = zero + 1u;
  const U small = t >= 0x3F000000u ? one_code : zero;
  U code = t >= 0x3F800000u ? (t >> 22) - 252u : small;
  code |= (bits >> 28) & 8u;
  return IsNan<L>(y) ? zero + 7u : code;
}

// Eight stochastically rounded codes of v * m, m > 0, in a word from the low
// nibble up. `random` holds eight random bytes. Needs several lanes; v must not
// be NaN. kUnrounded: rounds v to bf16 first.
template <typename L, bool kUnrounded = false>
QUANTD_FN typename L::U PackE2M1Stochastic(const typename L::F* v,
                                           typename L::F m,
                                           const typename L::U* random) {
  using F = typename L::F;
  using U = typename L::U;
  const U six = U{} + 0x40C00000u;
  const U one = U{} + 0x3F800000u;
  U halves[2] = {U{}, U{}};  // even and odd elements
  QUANTD_UNROLL
  for (int i = 0; i < 8; ++i) {
    // Uses the byte without shifting it down and scales the step to match. The
    // highest byte is shifted, because it could make the word negative.
    const U word = random[i / 4];
    const uint32_t place = i % 4 < 3 ? 8 * (i % 4) : 0;
    const U byte = i % 4 < 3 ? word & (0xFFu << place) : word >> 24;
    const F value = kUnrounded ? RoundToBf16<L>(v[i]) : v[i];
    const U magnitude = L::Min(L::Bits(value * m) & kAbsMask, six);
    const U binade = L::Max(magnitude, one) & kInfBits;
    const F step = L::Float(binade - ((9u + place) << 23));  // 2^-8 of a step
    const F t = L::AddProduct(L::Float(magnitude), L::ToFloat(byte), step);
    halves[i % 2] |= L::Truncate(t + t) << (8 * (i / 2));
  }
  return L::E2M1OfHalves(halves[0]) | L::E2M1OfHalves(halves[1]) << 4 |
         SignsOfEight<L, E2M1Input::kAny, E2M1Order::kLowFirst>(v);
}

// E2M1 code (4 bits) to fp32.
template <typename L>
QUANTD_FN typename L::F DecodeE2M1(typename L::U code) {
  using U = typename L::U;
  // Codes from 2 on are the top bits of fp32 numbers; codes 0 and 1 are 0 and
  // 0.5. (Scaling up an fp32 subnormal would work for all codes, but subnormals
  // are slow on some CPUs.)
  const U magnitude = code & 7u;
  const U small = (U{} - magnitude) & 0x3F000000u;
  const U large = (magnitude << 22) + 0x3F000000u;
  return L::Float((magnitude < 2u ? small : large) | (code & 8u) << 28);
}

// Keeps the first `count` of sixteen E2M1 codes and sets the others to zero,
// because padding is zero even in a block whose scale is NaN.
template <typename L>
QUANTD_FN void KeepCodes(int64_t count, typename L::U* words) {
  if (count >= 16) return;
  for (int w = 0; w < 2; ++w) {
    const int64_t kept = count - 8 * w;
    if (kept >= 8) continue;
    const uint32_t mask = kept <= 0 ? 0u : (1u << (4 * kept)) - 1u;
    words[w] = words[w] & mask;
  }
}

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_E2M1_H_
