// Encoding of FP8 with vectors along the row. A lane holds an element, not a
// line, so that nothing is transposed. Included only by sources that are
// compiled once for each instruction set.
//
// The unit is a twin: 2W consecutive elements, with the even ones in one vector
// and the odd ones in another. A word of a 16-bit type holds one of each, in
// its low and its high half.
#ifndef QUANTD_KERNELS_CPU_ISA_FP8_H_
#define QUANTD_KERNELS_CPU_ISA_FP8_H_

#include "kernels/arith/codec.h"
#include "kernels/arith/encode.h"
#include "kernels/cpu/isa/lines.h"
#include "kernels/cpu/isa/transpose.h"

namespace quantd {
inline namespace QUANTD_ARITH {

// The number of elements that EncodeThirtyTwo encodes.
inline constexpr int kFp8Step = 32;

// A twin: 2W elements, those with even and those with odd positions.
template <DType D>
struct Twin {
  Lane::U raw;  // 16-bit types: the words unchanged
  Lane::F even;
  Lane::F odd;
};

template <DType D>
QUANTD_FN Twin<D> LoadTwin(const std::byte* p) {
  constexpr int W = QUANTD_LANES;
  using L = Lane;
  Twin<D> t;
  if constexpr (D == DType::kF32) {
    L::U odd;
    LoadPairs<W>(p, &t.raw, &odd);
    t.even = L::Float(t.raw);
    t.odd = L::Float(odd);
  } else {
    __builtin_memcpy(&t.raw, p, sizeof(t.raw));
    if constexpr (D == DType::kBF16) {
      t.even = L::Float(t.raw << 16);
      t.odd = L::Float(t.raw & 0xFFFF0000u);
    } else {
      t.even = Decode16<L, D>(t.raw & 0xFFFFu);
      t.odd = Decode16<L, D>(t.raw >> 16);
    }
  }
  return t;
}

// The largest magnitudes so far, for each lane, as fp32 bits: once with NaN
// above Inf and once with NaN dropped. Without kSpecial there must be no NaN,
// or the second maximum must not be used.
template <DType D, bool kSpecial>
struct Running {
  typedef int16_t Halves __attribute__((vector_size(4 * QUANTD_LANES)));
  // For 16-bit types without kSpecial a lane holds two halves, whose magnitudes
  // have the order of integers; otherwise one value.
  Lane::U all{};
  Lane::U numbers{};

  static constexpr bool kHalves = D != DType::kF32 && !kSpecial;

  QUANTD_FN void Add(const Twin<D>& t) {
    using L = Lane;
    if constexpr (kHalves) {
      const auto a = reinterpret_cast<Halves>(t.raw & 0x7FFF7FFFu);
      const auto b = reinterpret_cast<Halves>(all);
      all = reinterpret_cast<L::U>(a > b ? a : b);
      return;
    }
    const L::F v[2] = {t.even, t.odd};
    L::U max, clean;
    FindMaxima<L>(v, 2, &max, &clean);
    all = L::Max(max, all);
    if constexpr (kSpecial) numbers = L::Max(clean, numbers);
  }
  QUANTD_FN Lane::U Max() const {
    if constexpr (!kHalves) {
      return all;
    } else {
      const Lane::U low = all & 0xFFFFu;
      return Lane::Max(Lane::Bits(Decode16<Lane, D>(low)),
                       Lane::Bits(Decode16<Lane, D>(all >> 16)));
    }
  }
  QUANTD_FN Lane::U Clean() const { return kSpecial ? numbers : Max(); }
};

// The codes of v * m as halfwords, in the order of the elements. m must be
// positive, and without kSpecial there must be no NaN.
template <DType D, int kMantissa, bool kSpecial>
QUANTD_FN Lane::U CodesOf(const Twin<D>& t, Lane::F even_m, Lane::F odd_m) {
  using L = Lane;
  if constexpr (kSpecial) {
    const L::F even = t.even * even_m;
    const L::F odd = t.odd * odd_m;
    if constexpr (kMantissa == 3) {
      return EncodeE4M3<L>(even) | EncodeE4M3<L>(odd) << 16;
    } else {
      return EncodeE5M2<L>(even) | EncodeE5M2<L>(odd) << 16;
    }
  }
  const auto magnitude = [](L::F v) { return L::Float(L::Bits(v) & kAbsMask); };
  const L::U even =
      EncodeFp8Magnitude<L, kMantissa>(magnitude(t.even) * even_m);
  const L::U odd = EncodeFp8Magnitude<L, kMantissa>(magnitude(t.odd) * odd_m);
  const L::U signs = D == DType::kBF16
                         ? t.raw
                         : L::JoinHighHalves(L::Bits(t.even), L::Bits(t.odd));
  return (even & 0xFFFFu) | odd << 16 | (signs >> 8 & 0x00800080u);
}

// Stores the low bytes of 32 halfwords; see StoreVector.
template <bool kStream>
QUANTD_FN void StoreThirtyTwo(const Lane::U (&codes)[16 / QUANTD_LANES],
                              std::byte* to) {
#if defined(__AVX512F__)
  StoreVector<kStream>(
      _mm512_cvtepi16_epi8(reinterpret_cast<__m512i>(codes[0])), to);
#elif defined(__AVX2__)
  const __m256i packed = _mm256_packus_epi16(
      reinterpret_cast<__m256i>(codes[0]), reinterpret_cast<__m256i>(codes[1]));
  StoreVector<kStream>(_mm256_permute4x64_epi64(packed, 0xD8), to);
#else
  for (int i = 0; i < 4; i += 2) {
    StoreVector<kStream>(
        _mm_packus_epi16(reinterpret_cast<__m128i>(codes[i]),
                         reinterpret_cast<__m128i>(codes[i + 1])),
        to + 8 * i);
  }
#endif
}

// Encodes 32 consecutive elements under one multiplier.
template <DType D, int kMantissa, bool kSpecial, bool kStream>
QUANTD_FN void EncodeThirtyTwo(const std::byte* p, Lane::F m, std::byte* to) {
  constexpr int W = QUANTD_LANES;
  Lane::U codes[16 / W];
  for (int i = 0; i < 16 / W; ++i) {
    const Twin<D> t = LoadTwin<D>(p + i * 2 * W * SizeOf(D));
    codes[i] = CodesOf<D, kMantissa, kSpecial>(t, m, m);
  }
  StoreThirtyTwo<kStream>(codes, to);
}

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_CPU_ISA_FP8_H_
