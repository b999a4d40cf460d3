// The generic encoder of every format, over a lane type
// (kernels/arith/lanes.h), with a span of a line in each lane. Tuned kernels
// for some formats give the same bytes. kernels/plan/FORMATS.md explains the
// arithmetic.
#ifndef QUANTD_KERNELS_ARITH_ENCODE_H_
#define QUANTD_KERNELS_ARITH_ENCODE_H_

#include <cstdint>

#include "kernels/arith/block_scale.h"
#include "kernels/arith/codec.h"
#include "kernels/arith/copy_address.h"
#include "kernels/arith/decode.h"
#include "kernels/arith/e2m1.h"
#include "kernels/arith/encode_params.h"
#include "kernels/arith/four_over_six.h"
#include "kernels/arith/lanes.h"
#include "kernels/arith/maxima.h"
#include "kernels/arith/profile/numerics.h"
#include "kernels/arith/random_bytes.h"
#include "kernels/arith/run_errors.h"
#include "quantd/format.h"

namespace quantd {
inline namespace QUANTD_ARITH {

// The value that is rounded to a code: `v` scaled by its block's multiplier or
// divisor.
template <typename L, bool kOther>
QUANTD_FN typename L::F Scaled(const EncodeParams& p, typename L::F v,
                               typename L::F m) {
  if constexpr (kOther) return ScaledValue<L>(p, v, m);
  return v * m;
}

// Codes of 16 values: four words of FP8, or two of E2M1 with the first element
// in the low nibble.
template <typename L, bool kOther = false>
QUANTD_FN void EncodeSixteen(const EncodeParams& p, const typename L::F* v,
                             typename L::F m, const RandomBytes<L>* random,
                             typename L::U* words) {
  using U = typename L::U;
  if (p.element == DType::kE2M1x2) {
    QUANTD_UNROLL
    for (int w = 0; w < 2; ++w) {
      U word{};
      QUANTD_UNROLL
      for (int i = 0; i < 8; ++i) {
        const typename L::F y = Scaled<L, kOther>(p, v[8 * w + i], m);
        const U code = random != nullptr
                           ? EncodeE2M1Stochastic<L>(y, random->at(8 * w + i))
                       : kOther ? EncodeE2M1By<L>(p.numerics, y)
                                : EncodeE2M1<L>(y);
        word |= code << (4 * i);
      }
      words[w] = word;
    }
    return;
  }
  const bool e4m3 = p.element == DType::kE4M3;
  QUANTD_UNROLL
  for (int w = 0; w < 4; ++w) {
    U word{};
    QUANTD_UNROLL
    for (int i = 0; i < 4; ++i) {
      const typename L::F y = Scaled<L, kOther>(p, v[4 * w + i], m);
      word |= (e4m3 ? EncodeE4M3<L>(y) : EncodeE5M2<L>(y)) << (8 * i);
    }
    words[w] = word;
  }
}

// Whether EncodeSixteenNumbers accepts numbers (no NaN) scaled by m.
template <typename L, bool kOther>
QUANTD_FN bool TakesNumbers(const EncodeParams& p, typename L::F m) {
  using U = typename L::U;
  const U bits = L::Bits(m);
  if (L::Any((bits == 0u) | (bits >= kInfBits))) return false;
  const Numerics& n = p.numerics;
  return !kOther ||
         (!n.in_type && !n.ties_to_zero && n.sign != SignRule::kNotPositive);
}

// Like EncodeSixteen with values scaled by m and rounded to nearest, but with
// fewer operations and for numbers only (no NaN).
template <typename L, bool kOther>
QUANTD_FN void EncodeSixteenNumbers(const EncodeParams& p,
                                    const typename L::F* v, typename L::F m,
                                    typename L::U* words) {
  using F = typename L::F;
  using U = typename L::U;
  const bool over = kOther && p.numerics.operation != Operation::kTimes;
  const bool negative = kOther && p.numerics.sign == SignRule::kNegative;
  if (p.element == DType::kE2M1x2) {
    QUANTD_UNROLL
    for (int w = 0; w < 2; ++w) {
      const F* eight = v + 8 * w;
      words[w] = !kOther    ? PackE2M1<L, E2M1Input::kAny>(eight, m)
                 : !over    ? PackE2M1By<L, true, false>(eight, m)
                 : negative ? PackE2M1By<L, false, true>(eight, m)
                            : PackE2M1By<L, false, false>(eight, m);
    }
    return;
  }
  const bool e4m3 = p.element == DType::kE4M3;
  QUANTD_UNROLL
  for (int w = 0; w < 4; ++w) {
    U bits[4], code[4];
    QUANTD_UNROLL
    for (int i = 0; i < 4; ++i) {
      bits[i] = L::Bits(over ? v[4 * w + i] / m : v[4 * w + i] * m);
      const F magnitude = L::Float(bits[i] & kAbsMask);
      code[i] = e4m3 ? EncodeFp8Magnitude<L, 3>(magnitude)
                     : EncodeFp8Magnitude<L, 2>(magnitude);
    }
    // Bits above bit 22 of a sum never reach the low 16 bits.
    const U low = (code[0] | code[1] << 8) & 0xFFFFu;
    const U high = (code[2] | code[3] << 8) << 16;
    const U even = L::JoinHighHalves(bits[0], bits[2]) >> 8;
    const U odd = L::JoinHighHalves(bits[1], bits[3]);
    words[w] = low | high | (even & 0x00800080u) | (odd & 0x80008000u);
  }
}

// Codes of 16 numbers scaled by m, rounded stochastically.
template <typename L>
QUANTD_FN void EncodeSixteenByBytes(const typename L::F* v, typename L::F m,
                                    const RandomBytes<L>& random,
                                    typename L::U* words) {
  if constexpr (L::kWidth > 1) {
    words[0] = PackE2M1Stochastic<L>(v, m, random.words);
    words[1] = PackE2M1Stochastic<L>(v + 8, m, random.words + 2);
  }
}

// The scale of a block of n values that is not a square. Sets `*numbers` if it
// finds that no value is NaN.
template <typename L, bool kOther>
QUANTD_FN BlockScale<L> FindBlockScale(const EncodeParams& p,
                                       const LineScale<L>& line,
                                       const typename L::F* v, int n,
                                       bool* numbers) {
  typename L::U max{};
  typename L::U clean{};
  if (HasBlockScales(p.scaling)) {
    FindMaxima<L>(v, n, &max, &clean);
    *numbers = L::kWidth > 1 && !L::Any(max > kInfBits);
  }
  if constexpr (kOther) return MakeBlockScale<L, true>(p, line, max, clean);
  return ScaleOfBlock<L, true>(p, line, v, max, clean);
}

// The factor of a line's codes, given a scale as StoredScale returns it.
template <typename L, bool kOther>
QUANTD_FN typename L::F FactorOf(const EncodeParams& p,
                                 const LineScale<L>& line,
                                 typename L::U stored) {
  if (kOther && p.scaling == Scaling::kNvfp4) {
    const typename L::F global =
        WorksWithGlobal<kOther>(p.numerics) ? line.s : line.s_dec;
    // A NaN amax is stored as NaN, although the blocks were encoded without it.
    return GlobalFactor<L>(p.numerics.factor,
                           IsNan<L>(line.amax) ? line.amax : global, stored);
  }
  return DecodeFactor<L>(
      p.scaling, MakeLineDecode<L>(p.scaling, line.amax, p.range), stored);
}

// ErrorsUnder for several lanes and a whole run. Returns false if a value,
// scaled value or decoded value is NaN or Inf.
template <typename L, bool kOther>
QUANTD_FN bool FiniteErrorsUnder(const EncodeParams& p, typename L::F factor,
                                 typename L::F m, const typename L::F* v,
                                 const typename L::U* words,
                                 RunErrors<L>* errors) {
  using F = typename L::F;
  using U = typename L::U;
  U largest{};
  QUANTD_UNROLL
  for (int i = 0; i < kRun; ++i) {
    largest = L::Max(largest, MagnitudeOf<L>(v[i]));
  }
  const float code = p.element == DType::kE2M1x2 ? 6.0f
                     : p.element == DType::kE4M3 ? 448.0f
                                                 : 57344.0f;
  const U most = L::Bits(factor * code) & kAbsMask;
  if (L::Any((L::Bits(m) == 0u) | (L::Bits(m) >= kInfBits) |
             (largest >= kInfBits) | (most >= kInfBits))) {
    return false;
  }
  F d[kRun];
  DecodeMagnitudes<L>(p.element, words, d);
  QUANTD_UNROLL
  for (int i = 0; i < kRun; ++i) d[i] = d[i] * factor;
  *errors = ErrorsOfFiniteRun<L>(v, d, largest);
  // Scaling is monotone, so if the largest value is not clipped, no value is.
  const U scaled = L::Bits(Scaled<L, kOther>(p, L::Float(largest), m));
  if (L::Any(scaled >= p.clip)) {
    for (int i = 0; i < kRun; ++i) {
      const U y = L::Bits(Scaled<L, kOther>(p, v[i], m)) & kAbsMask;
      errors->clipped =
          errors->clipped + ((y >= p.clip) & (y <= kInfBits) ? U{} + 1u : U{});
    }
  }
  return true;
}

// The errors of 16 values that were scaled by `m` and rounded to the codes in
// `words`, decoded with `factor`. Only the first `count` values exist.
template <typename L, bool kOther>
QUANTD_FN RunErrors<L> ErrorsUnder(const EncodeParams& p, typename L::F factor,
                                   typename L::F m, const typename L::F* v,
                                   const typename L::U* words, int64_t count) {
  if constexpr (L::kWidth > 1) {
    RunErrors<L> errors;
    if (count >= kRun &&
        FiniteErrorsUnder<L, kOther>(p, factor, m, v, words, &errors)) {
      return errors;
    }
  }
  typename L::F d[kRun];
  DecodeSixteen<L>(p.element, words, d);
  QUANTD_UNROLL
  for (int i = 0; i < kRun; ++i) d[i] = d[i] * factor;
  typename L::F scaled[kRun];
  QUANTD_UNROLL
  for (int i = 0; i < kRun; ++i) scaled[i] = Scaled<L, kOther>(p, v[i], m);
  return ErrorsOfRun<L>(v, scaled, d, p.clip, count);
}
template <typename L, bool kOther>
QUANTD_FN RunErrors<L> ErrorsOfSixteen(
    const EncodeParams& p, const LineScale<L>& line, const typename L::F* v,
    const BlockScale<L>& scale, const typename L::U* words, int64_t count) {
  const typename L::U stored = StoredScale<L, kOther>(
      p, HasBlockScales(p.scaling) ? scale.stored : L::Bits(line.scale));
  return ErrorsUnder<L, kOther>(p, FactorOf<L, kOther>(p, line, stored),
                                scale.m, v, words, count);
}

// The location of a span: positions from `position` on, in one line of a copy
// or in as many neighbouring lines as there are lanes.
struct SpanPlace {
  const CopyAddress& copy;
  bool columnwise;
  bool rotated;
  int64_t group_row;  // the group's first row in the payload
  int64_t line;
  int64_t position;
};

// Encodes a span of n values, which are already rotated if the copy is. `out`
// stores the results on a device:
//
//   U Settled(position)             returns the scale of a position's square
//   void StoreScale(block, stored)  stores the scale of a block of the lines
//   void StoreCodes(position, words)  stores codes in EncodeSixteen's order
//   bool counts()                   returns whether to call Count
//   void Count(errors)              adds the RunErrors of 16 positions
template <typename L, bool kOther, typename Out>
QUANTD_KERNEL_FN void EncodeSpan(const EncodeParams& p, const SpanPlace& at,
                                 const LineScale<L>& line,
                                 const typename L::F* v, int n,
                                 const Out& out) {
  const CopyAddress& copy = at.copy;
  const int block = p.block > 0 ? p.block : n;
  const int64_t first = at.position;
  // A span may extend beyond the end of the copy.
  for (int b = 0; b < n && first + b < copy.padded; b += block) {
    bool numbers = false;
    const BlockScale<L> scale =
        p.square ? UnderScale<L, kOther>(p, line, out.Settled(first + b))
                 : FindBlockScale<L, kOther>(p, line, v + b, block, &numbers);
    if (HasBlockScales(p.scaling)) {
      out.StoreScale((first + b) / block,
                     StoredScale<L, kOther>(p, scale.stored));
    } else if (p.scaling == Scaling::kChannel && first + b == 0) {
      out.StoreScale(0, StoredScale<L, kOther>(p, L::Bits(line.scale)));
    }
    for (int i = b; i < b + block && first + i < copy.padded; i += kBlock) {
      typename L::U words[4] = {};
      const bool plain = L::kWidth > 1 && TakesNumbers<L, kOther>(p, scale.m) &&
                         (numbers || AreNumbers<L>(v + i));
      if (p.stochastic) {
        const RandomBytes<L> random = DrawBytesOfSpan<L>(
            p, at.columnwise, at.group_row, at.line, first + i);
        if (plain) {
          EncodeSixteenByBytes<L>(v + i, scale.m, random, words);
        } else {
          EncodeSixteen<L, kOther>(p, v + i, scale.m, &random, words);
        }
      } else if (plain) {
        EncodeSixteenNumbers<L, kOther>(p, v + i, scale.m, words);
      } else {
        EncodeSixteen<L, kOther>(p, v + i, scale.m, nullptr, words);
      }
      if (p.element == DType::kE2M1x2 && !at.rotated) {
        KeepCodes<L>(copy.positions - (first + i), words);
      }
      if (out.counts()) {
        const int64_t end = at.rotated ? copy.padded : copy.positions;
        out.Count(ErrorsOfSixteen<L, kOther>(p, line, v + i, scale, words,
                                             end - first - i));
      }
      if (kOther && p.numerics.high_first) {
        for (int w = 0; w < 2; ++w) words[w] = SwapNibbles<L>(words[w]);
      }
      out.StoreCodes(first + i, words);
    }
  }
}

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_ENCODE_H_
