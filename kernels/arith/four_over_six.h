// NVFP4's 4over6 and scale search, over a lane type (kernels/arith/lanes.h): a
// block or a square is encoded with several candidate scales, and the best
// result is kept. 4over6 has two candidates, which map the maximum to 4 and
// to 6; the search has six.
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

// The error of a square: the errors of its lines, added pairwise in a tree. `F`
// is a float, or a vector with a square in each lane.
template <typename F>
QUANTD_FN F FourOverSixErrorOfSquare(const F* lines) {
  F sum[kBlock];
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

// Whether several scales are tried for every block or square. The compiler
// removes the test where the format is known not to be NVFP4.
QUANTD_FN bool TriesScales(const EncodeParams& p) {
  return p.scaling == Scaling::kNvfp4 &&
         p.nvfp4.four_over_six != FourOverSix::kOff;
}

// The number of candidate scales of a block or a square.
inline constexpr int kMostCandidates = 6;
QUANTD_FN int CandidateCount(const EncodeParams& p) {
  return p.nvfp4.scale_search ? kMostCandidates : 2;
}

// Candidate i for a block whose largest magnitude is `clean`. The first one is
// the code for a maximum of 6. The search adds codes near it, and codes near
// the one for a maximum of 4, which is 4 to 6 codes above.
template <typename L>
QUANTD_FN typename L::U CandidateScale(const EncodeParams& p,
                                       const LineScale<L>& line,
                                       typename L::U clean, int i) {
  using U = typename L::U;
  const U one = U{} + 1u;
  const U largest = U{} + (kNvfp4NanScale - 1);
  U four, six;
  FourOverSixScales<L>(line, clean, &four, &six);
  if (i == 0) return six;
  if (!p.nvfp4.scale_search) return four;
  if (i == 1) return L::Max(six, one) - one;
  return L::Min(six + static_cast<uint32_t>(i == 2 ? 1 : i + 1), largest);
}

// The best candidate for a block or a square with the maxima `max` and `clean`:
// the first one that no other has a smaller error than. `error(i, code)`
// returns the error under candidate i with the scale `code`.
template <typename L, typename ErrorOf>
QUANTD_FN typename L::U BestScale(const EncodeParams& p,
                                  const LineScale<L>& line, typename L::U max,
                                  typename L::U clean, const ErrorOf& error) {
  using F = typename L::F;
  using U = typename L::U;
  U best = CandidateScale<L>(p, line, clean, 0);
  F least = error(0, best);
  for (int i = 1; i < CandidateCount(p); ++i) {
    const U code = CandidateScale<L>(p, line, clean, i);
    const F found = error(i, code);
    best = found < least ? code : best;
    least = found < least ? found : least;
  }
  const U nan = U{} + kNvfp4NanScale;
  if (p.propagate) best = max > kInfBits ? nan : best;
  return best;
}

// The scale of the block `v` by scale search. Inlined, it would take registers
// from CUDA's generic kernel.
template <typename L>
QUANTD_RARE_FN typename L::U SearchScale(const EncodeParams& p,
                                         const LineScale<L>& line,
                                         const typename L::F* v,
                                         typename L::U max,
                                         typename L::U clean) {
  return BestScale<L>(p, line, max, clean, [&](int, typename L::U code) {
    return FourOverSixError<L>(p, line, v, code);
  });
}

// The best candidate for the block `v`.
template <typename L>
QUANTD_FN BlockScale<L> BestBlockScale(const EncodeParams& p,
                                       const LineScale<L>& line,
                                       const typename L::F* v,
                                       typename L::U max, typename L::U clean) {
  if (!p.nvfp4.scale_search) return FourOverSixScale<L>(p, line, v, max, clean);
  return UnderScale<L>(p, line, SearchScale<L>(p, line, v, max, clean));
}

// The scale of the block `v`, whose maxima are `max` and `clean`. Kernels that
// never see a request with scale_search leave kSearches out.
template <typename L, bool kSearches = false>
QUANTD_FN BlockScale<L> ScaleOfBlock(const EncodeParams& p,
                                     const LineScale<L>& line,
                                     const typename L::F* v, typename L::U max,
                                     typename L::U clean) {
  if (TriesScales(p)) {
    return kSearches ? BestBlockScale<L>(p, line, v, max, clean)
                     : FourOverSixScale<L>(p, line, v, max, clean);
  }
  return MakeBlockScale<L>(p, line, max, clean);
}

// The scale of a square, before it is converted to its stored form. `error` is
// as for BestScale.
template <typename L, bool kOther, typename ErrorOf>
QUANTD_FN typename L::U ScaleOfSquare(const EncodeParams& p,
                                      const LineScale<L>& line,
                                      typename L::U max, typename L::U clean,
                                      const ErrorOf& error) {
  if (kOther || !TriesScales(p)) {
    return MakeBlockScale<L, kOther>(p, line, max, clean).stored;
  }
  return BestScale<L>(p, line, max, clean, error);
}

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_FOUR_OVER_SIX_H_
