// NVFP4's 4over6, over a lane type (kernels/arith/lanes.h): a block or a square
// is encoded for a maximum of 4 and for a maximum of 6, and the better result
// is kept.
#ifndef QUANTD_KERNELS_ARITH_FOUR_OVER_SIX_H_
#define QUANTD_KERNELS_ARITH_FOUR_OVER_SIX_H_

#include <cstdint>

#include "kernels/arith/block_scale.h"
#include "kernels/arith/e2m1.h"
#include "kernels/arith/encode_params.h"
#include "kernels/arith/lanes.h"
#include "kernels/arith/nvfp4.h"

namespace quantd {
inline namespace QUANTD_ARITH {

// Whether decoded numbers under an amax may leave the range in which
// multiplying by a power of two is exact. These numbers are E2M1 values times a
// scale times the amax, divided by the range.
template <typename L>
QUANTD_FN auto MayRoundMore(typename L::F amax) {
  constexpr uint32_t kLeast = 0x0D800000u;  // 2^-100
  constexpr uint32_t kMost = 0x76800000u;   // 2^110
  return (L::Bits(amax) - kLeast) >= (kMost - kLeast);
}

// FourOverSixError for several lanes, from magnitudes and without a division
// for each value: an E2M1 number is 1 or 1.5 times a power of two, so its
// decoded value is one of two numbers times a power of two.
template <typename L>
QUANTD_FN typename L::F FourOverSixErrorOfScaled(const EncodeParams& p,
                                                 const LineScale<L>& line,
                                                 const typename L::F* v,
                                                 typename L::F sf,
                                                 typename L::F m) {
  using F = typename L::F;
  using U = typename L::U;
  const F range = L::Broadcast(p.range);
  const F of_one = (sf * line.amax) / range;
  const F of_more = ((sf * 1.5f) * line.amax) / range;
  const bool squares = p.nvfp4.four_over_six == FourOverSix::kMse;
  F sum{};
  QUANTD_UNROLL
  for (int i = 0; i < kBlock; ++i) {
    const F magnitude = L::Float(L::Bits(v[i]) & kAbsMask);
    const U q = L::Bits(RoundToE2M1Magnitude<L>(magnitude * m));
    const F d = L::SubProduct(magnitude, L::PickBySign(q << 9, of_more, of_one),
                              L::Float(q & kInfBits));
    sum = sum + (squares ? d * d : L::Float(L::Bits(d) & kAbsMask));
  }
  return sum;
}

// The error of a block under a scale: the sum of the chosen metric over its
// values, in order.
template <typename L>
QUANTD_FN typename L::F FourOverSixError(const EncodeParams& p,
                                         const LineScale<L>& line,
                                         const typename L::F* v,
                                         typename L::U code) {
  using F = typename L::F;
  const F sf = DecodeE4M3<L>(code);
  const F m = Nvfp4Multiplier<L>(code, line.s_dec);
  F sum{};
  if constexpr (L::kWidth > 1) {
    // A decoded value has the sign of the original, so magnitudes are enough.
    const typename L::F s = line.s;
    if (!p.nvfp4.fast_error && !L::Any(MayRoundMore<L>(line.amax))) {
      return FourOverSixErrorOfScaled<L>(p, line, v, sf, m);
    }
    QUANTD_UNROLL
    for (int i = 0; i < kBlock; ++i) {
      const F magnitude = L::Float(L::Bits(v[i]) & kAbsMask);
      const F scaled = RoundToE2M1Magnitude<L>(magnitude * m) * sf;
      const F d =
          p.nvfp4.fast_error
              ? scaled - magnitude * s
              : (scaled * line.amax) / L::Broadcast(p.range) - magnitude;
      sum = sum + (p.nvfp4.four_over_six == FourOverSix::kMse
                       ? d * d
                       : L::Float(L::Bits(d) & kAbsMask));
    }
    return sum;
  }
  for (int i = 0; i < kBlock; ++i) {
    const F q = DecodeE2M1<L>(EncodeE2M1<L>(v[i] * m));
    const F scaled = q * sf;
    const F d = p.nvfp4.fast_error
                    ? scaled - v[i] * line.s
                    : (scaled * line.amax) / L::Broadcast(p.range) - v[i];
    sum = sum + (p.nvfp4.four_over_six == FourOverSix::kMse
                     ? d * d
                     : L::Float(L::Bits(d) & kAbsMask));
  }
  return sum;
}

// The error of a square: the errors of its lines, added pairwise in a tree.
QUANTD_FN float FourOverSixErrorOfSquare(const float* lines) {
  float sum[kBlock];
  for (int i = 0; i < kBlock; ++i) sum[i] = lines[i];
  for (int half = kBlock / 2; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) sum[i] = sum[i] + sum[i + half];
  }
  return sum[0];
}

// The two candidate scales for a block whose largest magnitude is `clean`.
template <typename L>
QUANTD_FN void FourOverSixScales(const LineScale<L>& line, typename L::U clean,
                                 typename L::U* for_four,
                                 typename L::U* for_six) {
  using F = typename L::F;
  const F base = (L::Float(clean) / L::Broadcast(6.0f)) * line.s;
  *for_four = EncodeE4M3Positive<L>(base * 1.5f);
  *for_six = EncodeE4M3Positive<L>(base);
}

// The chosen candidate for a block with the largest magnitude `max`: the
// candidate for 4 only if its error is smaller.
template <typename L>
QUANTD_FN typename L::U FourOverSixChoice(const EncodeParams& p,
                                          typename L::U max, typename L::U four,
                                          typename L::F four_error,
                                          typename L::U six,
                                          typename L::F six_error) {
  using U = typename L::U;
  U code = four_error < six_error ? four : six;
  const U nan = U{} + kNvfp4NanScale;
  if (p.propagate) code = max > kInfBits ? nan : code;
  return code;
}

// The better candidate for the block `v`.
template <typename L>
QUANTD_FN BlockScale<L> FourOverSixScale(const EncodeParams& p,
                                         const LineScale<L>& line,
                                         const typename L::F* v,
                                         typename L::U max,
                                         typename L::U clean) {
  using U = typename L::U;
  U four, six;
  FourOverSixScales<L>(line, clean, &four, &six);
  const U code =
      FourOverSixChoice<L>(p, max, four, FourOverSixError<L>(p, line, v, four),
                           six, FourOverSixError<L>(p, line, v, six));
  return UnderScale<L>(p, line, code);
}

// Whether two scales are tried for every block or square. The compiler removes
// the test where the format is known not to be NVFP4.
QUANTD_FN bool TriesTwoScales(const EncodeParams& p) {
  return p.scaling == Scaling::kNvfp4 &&
         p.nvfp4.four_over_six != FourOverSix::kOff;
}

// The scale of the block `v`, whose maxima are `max` and `clean`, with 4over6
// if the options ask for it.
template <typename L>
QUANTD_FN BlockScale<L> ScaleOfBlock(const EncodeParams& p,
                                     const LineScale<L>& line,
                                     const typename L::F* v, typename L::U max,
                                     typename L::U clean) {
  if (TriesTwoScales(p)) return FourOverSixScale<L>(p, line, v, max, clean);
  return MakeBlockScale<L>(p, line, max, clean);
}

// The scale of a square, before it is converted to its stored form. `error(i,
// code)` returns the error of the square under candidate i with the scale
// `code`. Candidate 0 is for a maximum of 4, candidate 1 for 6.
template <typename L, bool kOther, typename ErrorOf>
QUANTD_FN typename L::U ScaleOfSquare(const EncodeParams& p,
                                      const LineScale<L>& line,
                                      typename L::U max, typename L::U clean,
                                      const ErrorOf& error) {
  if (kOther || !TriesTwoScales(p)) {
    return MakeBlockScale<L, kOther>(p, line, max, clean).stored;
  }
  typename L::U four, six;
  FourOverSixScales<L>(line, clean, &four, &six);
  return FourOverSixChoice<L>(p, max, four, error(0, four), six, error(1, six));
}

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_FOUR_OVER_SIX_H_
