// The vector lane type for a CPU core (see kernels/arith/lanes.h), made of the
// compiler's vector types, with W blocks or lines side by side. Included only
// by sources that are compiled once for each instruction set.
#ifndef QUANTD_KERNELS_CPU_ISA_LANE_H_
#define QUANTD_KERNELS_CPU_ISA_LANE_H_

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/arith/lanes.h"
#include "kernels/cpu/isa/lane_e2m1.h"

namespace quantd {
inline namespace QUANTD_ARITH {

template <int W>
struct Vec {
  typedef float F __attribute__((vector_size(4 * W)));
  typedef uint32_t U __attribute__((vector_size(4 * W)));
  typedef int32_t I __attribute__((vector_size(4 * W)));
  typedef uint64_t Wide __attribute__((vector_size(4 * W)));
  typedef uint16_t U16 __attribute__((vector_size(2 * W)));
  typedef uint8_t U8 __attribute__((vector_size(W)));
  typedef uint8_t Bytes __attribute__((vector_size(4 * W)));
  static constexpr int kWidth = W;

  static QUANTD_FN F Float(U u) { return reinterpret_cast<F>(u); }
  static QUANTD_FN U Bits(F f) { return reinterpret_cast<U>(f); }

  static QUANTD_FN F Broadcast(float f) {
    // Not F{} + f, which would turn -0 into +0.
    return f - F{};
  }

  static QUANTD_FN float Float32(uint32_t u) {
    return __builtin_bit_cast(float, u);
  }
  static QUANTD_FN F ToFloat(U u) {
#ifdef __AVX512F__
    if constexpr (W == 16) {
      return reinterpret_cast<F>(
          _mm512_cvtepi32_ps(reinterpret_cast<__m512i>(u)));
    }
#endif
#ifdef __AVX2__
    if constexpr (W == 8) {
      return reinterpret_cast<F>(
          _mm256_cvtepi32_ps(reinterpret_cast<__m256i>(u)));
    }
#endif
    if constexpr (W == 4) {
      return reinterpret_cast<F>(_mm_cvtepi32_ps(reinterpret_cast<__m128i>(u)));
    }
  }
  // The integer part of a number from 0 to below 2^31.
  static QUANTD_FN U Truncate(F f) {
#ifdef __AVX512F__
    if constexpr (W == 16) {
      return reinterpret_cast<U>(
          _mm512_cvttps_epi32(reinterpret_cast<__m512>(f)));
    }
#endif
#ifdef __AVX2__
    if constexpr (W == 8) {
      return reinterpret_cast<U>(
          _mm256_cvttps_epi32(reinterpret_cast<__m256>(f)));
    }
#endif
    if constexpr (W == 4) {
      return reinterpret_cast<U>(_mm_cvttps_epi32(reinterpret_cast<__m128>(f)));
    }
  }

  // Hides from the compiler that all lanes of a vector are equal.
  template <typename V>
  static QUANTD_FN void HideSource(V* v) {
    asm("" : "+x"(*v));
  }

  // The 64-bit products of the low halves. A template, like others below,
  // because GCC treats U as a scalar inside this class.
  template <typename V>
  static QUANTD_FN V MulLow(V a, uint32_t b) {
#ifdef __AVX512F__
    if constexpr (W == 16) {
      return reinterpret_cast<V>(
          _mm512_mul_epu32(reinterpret_cast<__m512i>(a), _mm512_set1_epi64(b)));
    }
#endif
#ifdef __AVX2__
    if constexpr (W == 8) {
      return reinterpret_cast<V>(_mm256_mul_epu32(reinterpret_cast<__m256i>(a),
                                                  _mm256_set1_epi64x(b)));
    }
#endif
    if constexpr (W == 4) {
      return reinterpret_cast<V>(
          _mm_mul_epu32(reinterpret_cast<__m128i>(a), _mm_set1_epi64x(b)));
    }
  }

  template <typename V>
  static QUANTD_FN void Progression(uint64_t first, uint64_t step, V* low,
                                    V* high) {
    typedef uint64_t Wide __attribute__((vector_size(8 * W)));
    V index;
    for (int i = 0; i < W; ++i) index[i] = static_cast<uint32_t>(i);
    const Wide v = __builtin_convertvector(index, Wide) * step + first;
    *low = __builtin_convertvector(v, V);
    *high = __builtin_convertvector(v >> 32, V);
  }

  // Uses signed comparisons, which SSE2 has; below 2^31 they agree with
  // unsigned ones.
  static QUANTD_FN U Min(U a, U b) {
#ifdef __AVX512F__
    if constexpr (W == 16) {
      return reinterpret_cast<U>(_mm512_min_epu32(
          reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
    }
#endif
#ifdef __AVX2__
    if constexpr (W == 8) {
      return reinterpret_cast<U>(_mm256_min_epu32(
          reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
    }
#endif
    return reinterpret_cast<I>(a) < reinterpret_cast<I>(b) ? a : b;
  }
  static QUANTD_FN U Max(U a, U b) {
#ifdef __AVX512F__
    if constexpr (W == 16) {
      return reinterpret_cast<U>(_mm512_max_epu32(
          reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
    }
#endif
#ifdef __AVX2__
    if constexpr (W == 8) {
      return reinterpret_cast<U>(_mm256_max_epu32(
          reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
    }
#endif
    return reinterpret_cast<I>(a) > reinterpret_cast<I>(b) ? a : b;
  }

  template <typename Mask>
  static QUANTD_FN bool Any(Mask mask) {
#ifdef __AVX512F__
    if constexpr (W == 16) {
      const auto m = reinterpret_cast<__m512i>(mask);
      return _mm512_test_epi32_mask(m, m) != 0;
    }
#endif
#ifdef __AVX2__
    if constexpr (W == 8) {
      const auto m = reinterpret_cast<__m256i>(mask);
      return !_mm256_testz_si256(m, m);
    }
#endif
    int any = 0;
    for (int i = 0; i < W; ++i) any |= static_cast<int>(mask[i]);
    return any != 0;
  }

  static QUANTD_FN F MulPlusZero(F x, F c) {
#ifdef __AVX512F__
    if constexpr (W == 16) {
      return reinterpret_cast<F>(_mm512_fmadd_ps(reinterpret_cast<__m512>(x),
                                                 reinterpret_cast<__m512>(c),
                                                 _mm512_setzero_ps()));
    }
#endif
#ifdef __FMA__
    if constexpr (W == 8) {
      return reinterpret_cast<F>(_mm256_fmadd_ps(reinterpret_cast<__m256>(x),
                                                 reinterpret_cast<__m256>(c),
                                                 _mm256_setzero_ps()));
    }
#endif
    return x == F{} ? F{} : x * c;
  }

  static QUANTD_FN F AddProduct(F a, F x, F c) {
#ifdef __AVX512F__
    if constexpr (W == 16) {
      return reinterpret_cast<F>(_mm512_fmadd_ps(reinterpret_cast<__m512>(x),
                                                 reinterpret_cast<__m512>(c),
                                                 reinterpret_cast<__m512>(a)));
    }
#endif
#ifdef __FMA__
    if constexpr (W == 8) {
      return reinterpret_cast<F>(_mm256_fmadd_ps(reinterpret_cast<__m256>(x),
                                                 reinterpret_cast<__m256>(c),
                                                 reinterpret_cast<__m256>(a)));
    }
#endif
    return a + x * c;
  }
  static QUANTD_FN F SubProduct(F a, F x, F c) {
#ifdef __AVX512F__
    if constexpr (W == 16) {
      return reinterpret_cast<F>(_mm512_fnmadd_ps(reinterpret_cast<__m512>(x),
                                                  reinterpret_cast<__m512>(c),
                                                  reinterpret_cast<__m512>(a)));
    }
#endif
#ifdef __FMA__
    if constexpr (W == 8) {
      return reinterpret_cast<F>(_mm256_fnmadd_ps(reinterpret_cast<__m256>(x),
                                                  reinterpret_cast<__m256>(c),
                                                  reinterpret_cast<__m256>(a)));
    }
#endif
    return a - x * c;
  }

  // `a` if the highest bit of `signs` is set, else `b`.
  static QUANTD_FN F PickBySign(U signs, F a, F b) {
#ifdef __AVX2__
    if constexpr (W == 8) {
      return reinterpret_cast<F>(_mm256_blendv_ps(
          reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(a),
          reinterpret_cast<__m256>(signs)));
    }
#endif
    return reinterpret_cast<I>(signs) < 0 ? a : b;
  }

  static QUANTD_FN U JoinHighHalves(U a, U b) {
#ifdef __AVX2__
    if constexpr (W == 8) {
      return reinterpret_cast<U>(
          _mm256_blend_epi16(reinterpret_cast<__m256i>(a >> 16),
                             reinterpret_cast<__m256i>(b), 0xAA));
    }
#endif
    return (a >> 16) | (b & 0xFFFF0000u);
  }

  // See kernels/cpu/isa/lane_e2m1.h.
  static QUANTD_FN U LessALastPlace16(U u) { return LessALastPlace16Of<W>(u); }
  static QUANTD_FN U E2M1Magic(U one_or_more) {
    return E2M1MagicOf<W>(one_or_more);
  }
  template <typename V>
  static QUANTD_FN V E2M1OfHalves(V halves) {
    return E2M1OfHalvesOf<W>(halves);
  }

  // Convert fp16 codes in the low halves of lanes to and from fp32, on CPUs
  // with instructions for it. A NaN stays a NaN, with unspecified bits. See
  // kernels/arith/codec.h.
#ifdef __F16C__
  static constexpr bool kConvertsHalves = W > 4;
  static QUANTD_FN F DecodeHalves(U16 codes) {
#ifdef __AVX512F__
    if constexpr (W == 16) {
      return reinterpret_cast<F>(
          _mm512_cvtph_ps(reinterpret_cast<__m256i>(codes)));
    }
#endif
    if constexpr (W == 8) {
      return reinterpret_cast<F>(
          _mm256_cvtph_ps(reinterpret_cast<__m128i>(codes)));
    }
  }
  static QUANTD_FN U16 EncodeHalves(F x) {
#ifdef __AVX512F__
    if constexpr (W == 16) {
      return reinterpret_cast<U16>(_mm512_cvtps_ph(reinterpret_cast<__m512>(x),
                                                   _MM_FROUND_TO_NEAREST_INT));
    }
#endif
    if constexpr (W == 8) {
      return reinterpret_cast<U16>(_mm256_cvtps_ph(reinterpret_cast<__m256>(x),
                                                   _MM_FROUND_TO_NEAREST_INT));
    }
  }
#else
  static constexpr bool kConvertsHalves = false;
#endif

  // Narrow each lane to its low half, and widen it again. Templates for the
  // same reason as MulLow.
  template <typename V>
  static QUANTD_FN U16 LowHalves(V u) {
#ifdef __AVX512F__
    if constexpr (W == 16) {
      return reinterpret_cast<U16>(
          _mm512_cvtepi32_epi16(reinterpret_cast<__m512i>(u)));
    }
#endif
#ifdef __AVX2__
    if constexpr (W == 8) {
      const __m256i evens =
          _mm256_set_epi64x(-1, 0x0D0C090805040100, -1, 0x0D0C090805040100);
      const __m256i low =
          _mm256_shuffle_epi8(reinterpret_cast<__m256i>(u), evens);
      return reinterpret_cast<U16>(
          _mm256_castsi256_si128(_mm256_permute4x64_epi64(low, 0x08)));
    }
#endif
    if constexpr (W == 4) return __builtin_convertvector(u & 0xFFFFu, U16);
  }
  template <typename V>
  static QUANTD_FN U WidenHalves(V halves) {
#ifdef __AVX512F__
    if constexpr (W == 16) {
      return reinterpret_cast<U>(
          _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(halves)));
    }
#endif
#ifdef __AVX2__
    if constexpr (W == 8) {
      return reinterpret_cast<U>(
          _mm256_cvtepu16_epi32(reinterpret_cast<__m128i>(halves)));
    }
#endif
    if constexpr (W == 4) return __builtin_convertvector(halves, U);
  }

  template <typename V>
  static QUANTD_FN U WidenBytes(V bytes) {
#ifdef __AVX512F__
    if constexpr (W == 16) {
      return reinterpret_cast<U>(
          _mm512_cvtepu8_epi32(reinterpret_cast<__m128i>(bytes)));
    }
#endif
#ifdef __AVX2__
    if constexpr (W == 8) {
      int64_t eight;
      __builtin_memcpy(&eight, &bytes, 8);
      return reinterpret_cast<U>(
          _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(eight)));
    }
#endif
    if constexpr (W == 4) return __builtin_convertvector(bytes, U);
  }

  // table[index]. The table holds its eight words twice and is 64-byte aligned.
  template <typename V>
  static QUANTD_FN V PickOfEight(const uint32_t* table, V index) {
#ifdef __AVX512F__
    if constexpr (W == 16) {
      return reinterpret_cast<V>(_mm512_permutexvar_epi32(
          reinterpret_cast<__m512i>(index), _mm512_load_si512(table)));
    }
#endif
#ifdef __AVX2__
    if constexpr (W == 8) {
      return reinterpret_cast<V>(_mm256_permutevar8x32_epi32(
          _mm256_load_si256(reinterpret_cast<const __m256i*>(table)),
          reinterpret_cast<__m256i>(index)));
    }
#endif
    V picked;
    for (int i = 0; i < W; ++i) picked[i] = table[index[i]];
    return picked;
  }

  // The low byte of each lane.
  static QUANTD_FN U8 LowBytes(U u) {
    return LowBytesBy(u, std::make_index_sequence<W>());
  }

 private:
  template <size_t... I>
  static QUANTD_FN U8 LowBytesBy(U u, std::index_sequence<I...>) {
    const Bytes bytes = reinterpret_cast<Bytes>(u);
    return __builtin_shufflevector(bytes, bytes, (4 * I)...);
  }
};

template <int W>
using U32 = typename Vec<W>::U;

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_CPU_ISA_LANE_H_
