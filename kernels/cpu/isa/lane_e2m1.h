// The functions of Vec (kernels/cpu/isa/lane.h) that only E2M1 needs. `V` is a
// vector of W words. Included only by sources that are compiled once for each
// instruction set.
#ifndef QUANTD_KERNELS_CPU_ISA_LANE_E2M1_H_
#define QUANTD_KERNELS_CPU_ISA_LANE_E2M1_H_

#include <immintrin.h>

#include "kernels/arith/lanes.h"

namespace quantd {
inline namespace QUANTD_ARITH {

// Subtracts 1 from each half of a word that is not 0.
template <int W, typename V>
QUANTD_FN V LessALastPlace16Of(V u) {
#ifdef __AVX512BW__
  if constexpr (W == 16) {
    return reinterpret_cast<V>(
        _mm512_subs_epu16(reinterpret_cast<__m512i>(u), _mm512_set1_epi16(1)));
  }
#endif
#ifdef __AVX2__
  if constexpr (W == 8) {
    return reinterpret_cast<V>(
        _mm256_subs_epu16(reinterpret_cast<__m256i>(u), _mm256_set1_epi16(1)));
  }
#endif
  if constexpr (W == 4) {
    return reinterpret_cast<V>(
        _mm_subs_epu16(reinterpret_cast<__m128i>(u), _mm_set1_epi16(1)));
  }
}

// Selects one of three magic numbers by the low bits of the exponent. Looking
// them up in a register is faster than the arithmetic of Scalar.
template <int W, typename V>
QUANTD_FN V E2M1MagicOf(V one_or_more) {
#ifdef __AVX512F__
  if constexpr (W == 16) {
    return reinterpret_cast<V>(
        _mm512_permutevar_ps(_mm512_castsi512_ps(_mm512_set4_epi32(
                                 0x4A800000, 0, 0x4B800004, 0x4B000002)),
                             reinterpret_cast<__m512i>(one_or_more >> 23)));
  }
#endif
#ifdef __AVX2__
  if constexpr (W == 8) {
    return reinterpret_cast<V>(_mm256_permutevar_ps(
        _mm256_castsi256_ps(_mm256_setr_epi32(0x4B000002, 0x4B800004, 0,
                                              0x4A800000, 0x4B000002,
                                              0x4B800004, 0, 0x4A800000)),
        reinterpret_cast<__m256i>(one_or_more >> 23)));
  }
#endif
  const V exponent = one_or_more & 0x7F800000u;
  return exponent + (exponent >> 22) + ((22u << 23) - 254u);
}

// The E2M1 codes of values, rounded down, one in each byte. Each byte of
// `halves` is twice a value, an integer from 0 to 15.
template <int W, typename V>
QUANTD_FN V E2M1OfHalvesOf(V halves) {
#ifdef __AVX512BW__
  if constexpr (W == 16) {
    return reinterpret_cast<V>(_mm512_shuffle_epi8(
        _mm512_set4_epi32(0x07070707, 0x06060606, 0x05050404, 0x03020100),
        reinterpret_cast<__m512i>(halves)));
  }
#endif
#ifdef __AVX2__
  if constexpr (W == 8) {
    return reinterpret_cast<V>(_mm256_shuffle_epi8(
        _mm256_set_epi32(0x07070707, 0x06060606, 0x05050404, 0x03020100,
                         0x07070707, 0x06060606, 0x05050404, 0x03020100),
        reinterpret_cast<__m256i>(halves)));
  }
#endif
  const V fourths = (halves >> 3) & 0x01010101u;
  const V seconds = (halves >> 2) & 0x01010101u & ~fourths;
  // 0 to 3 are unchanged, 4 to 7 are halved and 8 to 15 quartered, and offset
  // by 2 or 4.
  const V ones = halves & (0x03030303u ^ (seconds * 3) ^ (fourths * 3));
  const V halved = ((halves >> 1) & (seconds * 3)) + seconds * 2;
  const V quartered = ((halves >> 2) & (fourths * 3)) + fourths * 4;
  return ones | halved | quartered;
}

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_CPU_ISA_LANE_E2M1_H_
