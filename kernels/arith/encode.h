// One span of lines through any format: rotation, scales, codes, over a lane
// type (kernels/arith/lanes.h), a line in each lane. The generic way; tuned
// kernels stand beside it and give the same bytes. kernels/plan/FORMATS.md is
// its prose.
#ifndef QUANTD_KERNELS_ARITH_ENCODE_H_
#define QUANTD_KERNELS_ARITH_ENCODE_H_

#include <cstdint>

#include "kernels/arith/block.h"
#include "kernels/arith/codec.h"
#include "kernels/arith/hadamard.h"
#include "kernels/arith/lanes.h"
#include "kernels/arith/philox.h"
#include "kernels/plan/format.h"

namespace quantd {

// What all spans of a job share. Plain data; the same on every device.
struct EncodeParams {
  Scaling scaling;
  DType element;
  DType input;
  int block;  // 0: the tensor
  bool square;
  bool propagate;
  int64_t cols;  // K

  // NVFP4
  float f6;  // largest scale times 6: 2688 or 1536
  FourOverSix four_over_six;
  bool fast_error;
  // Stochastic rounding: position (m, k) is (row_offset + m, column_offset + k)
  // of a matrix with total_columns columns.
  bool stochastic;
  uint64_t seed;
  uint64_t subsequence;  // of the rowwise copy; the columnwise one is next
  int64_t row_offset;
  int64_t column_offset;
  int64_t total_columns;

  // FP8
  float element_max;
  float epsilon;
  bool power_of_two;
  float scale_limit;  // instead of an infinite scale
  // MX
  ScaleRule rule;
  float inverse_max;  // fl32(1 / element_max)
  int emax;           // exponent of element_max
  int mantissa;       // stored mantissa bits of an element
};

inline namespace QUANTD_ARITH {

// What holds for a whole line: one number for NVFP4's amax or the tensor's
// scale, the rest follows.
template <typename L>
struct LineScale {
  typename L::F amax;   // NVFP4
  typename L::F s;      // NVFP4: the encode scale S
  typename L::F s_dec;  // NVFP4: 1 / S
  typename L::F scale;  // kTensor
};

template <typename L>
QUANTD_FN typename L::F Nvfp4EncodeScaleOf(typename L::F amax, float f6) {
  using F = typename L::F;
  const F flt_max = L::Broadcast(L::Float32(kFltMaxBits));
  const F one = L::Broadcast(1.0f);
  const F zero{};
  F s = L::Broadcast(f6) / amax;
  s = s < flt_max ? s : flt_max;  // NaN too
  return (amax == zero) | (s == zero) ? one : s;
}

template <typename L>
QUANTD_FN LineScale<L> MakeLineScale(const EncodeParams& p, typename L::F amax,
                                     typename L::F tensor_scale) {
  LineScale<L> line = {amax, amax, amax, tensor_scale};
  if (p.scaling == Scaling::kNvfp4) {
    line.s = Nvfp4EncodeScaleOf<L>(amax, p.f6);
    line.s_dec = L::Broadcast(1.0f) / line.s;
  }
  return line;
}

// FP8's scale for a given amax: NUMERICS of current scaling. Also a block's.
template <typename L>
QUANTD_FN typename L::F Fp8Scale(const EncodeParams& p, typename L::F amax) {
  using F = typename L::F;
  using U = typename L::U;
  const F epsilon = L::Broadcast(p.epsilon);
  const F limit = L::Broadcast(p.scale_limit);
  const F one = L::Broadcast(1.0f);
  amax = amax < epsilon ? epsilon : amax;
  F scale = L::Broadcast(p.element_max) / amax;
  scale = L::Bits(scale) == kInfBits ? limit : scale;
  const U magnitude = L::Bits(amax) & kAbsMask;
  scale = (magnitude == 0u) | (magnitude >= kInfBits) ? one : scale;
  const U mask = U{} + (p.power_of_two ? 0xFF800000u : 0xFFFFFFFFu);
  return L::Float(L::Bits(scale) & mask);
}

// E8M0 scale of a block with largest magnitude `amax` (fp32 bits, no NaN).
template <typename L>
QUANTD_FN typename L::U MxScale(const EncodeParams& p, typename L::U amax) {
  using U = typename L::U;
  const U zero{};
  if (p.rule == ScaleRule::kUp) {
    const U v = L::Bits(L::Float(amax) * p.inverse_max);
    const U exponent = v >> 23;
    const U fraction = v & 0x7FFFFFu;
    // Up to the next power of two; 2^-127 is the smallest.
    const auto least = (exponent == 0u) & (fraction <= 0x400000u);
    const auto stay = (fraction == 0u) | (exponent == 254u) | least;
    const U up = stay ? exponent : exponent + 1u;
    return L::Min(up, zero + 0xFEu);
  }
  U exponent = amax >> 23;
  if (p.rule == ScaleRule::kCeil) {
    exponent = (amax & 0x7FFFFFu) != 0u ? exponent + 1u : exponent;
  } else if (p.rule == ScaleRule::kEven) {
    exponent = (amax + (1u << (22 - p.mantissa))) >> 23;
  }
  const U emax = zero + static_cast<uint32_t>(p.emax);
  const U shared = L::Max(exponent, emax) - emax;
  return amax == kInfBits ? zero + 0xFEu : shared;
}

// 2^(127 - code), NaN for 0xFF.
template <typename L>
QUANTD_FN typename L::F MxMultiplier(typename L::U code) {
  using U = typename L::U;
  const U zero{};
  U bits = (254u - code) << 23;
  bits = code == 254u ? zero + 0x00400000u : bits;
  return L::Float(code == 0xFFu ? zero + kNanBits : bits);
}

// A block's scale as it is stored (`stored`: a code, or the bits of an fp32)
// and what its elements are multiplied with.
template <typename L>
struct BlockScale {
  typename L::U stored;
  typename L::F m;
};

// NVFP4 multiplier under a scale code.
template <typename L>
QUANTD_FN typename L::F Nvfp4MultiplierOf(typename L::U code,
                                          typename L::F s_dec) {
  using U = typename L::U;
  const typename L::F m = L::Broadcast(1.0f) / (DecodeE4M3<L>(code) * s_dec);
  return L::Float(L::Min(L::Bits(m) & kAbsMask, U{} + kFltMaxBits));
}

// From `stored` to the multiplier: for scales that were settled elsewhere.
template <typename L>
QUANTD_FN BlockScale<L> UnderScale(const EncodeParams& p,
                                   const LineScale<L>& line,
                                   typename L::U stored) {
  switch (p.scaling) {
    case Scaling::kNvfp4:
      return {stored, Nvfp4MultiplierOf<L>(stored, line.s_dec)};
    case Scaling::kMx:
      return {stored, MxMultiplier<L>(stored)};
    case Scaling::kBlock:
      // The stored scale is the inverse, which has no way back: squares keep
      // the scale itself until they are written.
      return {stored, L::Float(stored)};
    case Scaling::kTensor:
      break;
  }
  return {stored, line.scale};
}

// The scale of a block whose magnitudes have the maximum `max` with NaN above
// Inf, and `clean` with NaN dropped. For kBlock `stored` is the scale, not yet
// its inverse: see StoredScale.
template <typename L>
QUANTD_FN BlockScale<L> MakeBlockScale(const EncodeParams& p,
                                       const LineScale<L>& line,
                                       typename L::U max, typename L::U clean) {
  using U = typename L::U;
  const U zero{};
  U stored{};
  U nan{};
  switch (p.scaling) {
    case Scaling::kNvfp4: {
      const typename L::F inv6 = L::Broadcast(L::Float32(0x3E2AAAABu));
      stored = EncodeE4M3Positive<L>(L::Float(clean) * (line.s * inv6));
      nan = zero + 0x7Fu;
      break;
    }
    case Scaling::kMx:
      stored = MxScale<L>(p, clean);
      nan = zero + 0xFFu;
      break;
    case Scaling::kBlock:
      stored = L::Bits(Fp8Scale<L>(p, L::Float(clean)));
      nan = zero + kNanBits;
      break;
    case Scaling::kTensor:
      break;
  }
  if (p.propagate) stored = max > kInfBits ? nan : stored;
  return UnderScale<L>(p, line, stored);
}

// As it leaves: FP8 block scales are inverted.
template <typename L>
QUANTD_FN typename L::U StoredScale(const EncodeParams& p,
                                    typename L::U stored) {
  if (p.scaling != Scaling::kBlock) return stored;
  const typename L::F inverse = L::Broadcast(1.0f) / L::Float(stored);
  const typename L::U nan = typename L::U{} + kNanBits;
  return IsNan<L>(inverse) ? nan : L::Bits(inverse);
}

// Largest magnitude of n values, NaN above Inf, and with NaN dropped.
template <typename L>
QUANTD_FN void Maxima(const typename L::F* v, int n, typename L::U* max,
                      typename L::U* clean) {
  using U = typename L::U;
  U all{};
  U numbers{};
  for (int i = 0; i < n; ++i) {
    const U a = L::Bits(v[i]) & kAbsMask;
    all = L::Max(a, all);
    const U number = a > kInfBits ? numbers : a;
    numbers = L::Max(number, numbers);
  }
  *max = all;
  *clean = numbers;
}

// E2M1 code of y with sign, to nearest; NaN is 7.
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

// The same rounded up with probability `byte` / 256 of a step.
template <typename L>
QUANTD_FN typename L::U EncodeE2M1Stochastic(typename L::F y,
                                             typename L::U byte) {
  using F = typename L::F;
  using U = typename L::U;
  const U bits = L::Bits(y);
  const U six = U{} + 0x40C00000u;
  // Beyond 6 everything saturates, whatever is added.
  const U magnitude = L::Min(bits & kAbsMask, six);
  const F a = L::Float(magnitude);
  const U two = U{} + 0x3C000000u;   // 2 / 256
  const U one = U{} + 0x3B800000u;   // 1 / 256
  const U half = U{} + 0x3B000000u;  // 0.5 / 256
  U step = magnitude >= 0x40000000u ? one : half;
  step = magnitude >= 0x40800000u ? two : step;
  const U t = L::Bits(a + L::ToFloat(byte) * L::Float(step));
  // From 1 on the codes are the exponent and the first bit after the point.
  const U zero{};
  const U one_code = zero + 1u;
  const U small = t >= 0x3F000000u ? one_code : zero;
  U code = t >= 0x3F800000u ? (t >> 22) - 252u : small;
  code |= (bits >> 28) & 8u;
  return IsNan<L>(y) ? zero + 7u : code;
}

// Sums of the errors of a block encoded under a scale, by 4over6's metric.
template <typename L>
QUANTD_FN typename L::F FourOverSixError(const EncodeParams& p,
                                         const LineScale<L>& line,
                                         const typename L::F* v,
                                         typename L::U code) {
  using F = typename L::F;
  const F sf = DecodeE4M3<L>(code);
  const F m = Nvfp4MultiplierOf<L>(code, line.s_dec);
  F sum{};
  for (int i = 0; i < kBlock; ++i) {
    const F q = DecodeE2M1<L>(EncodeE2M1<L>(v[i] * m));
    const F scaled = q * sf;
    const F d = p.fast_error ? scaled - v[i] * line.s
                             : (scaled * line.amax) / L::Broadcast(p.f6) - v[i];
    sum = sum + (p.four_over_six == FourOverSix::kMse
                     ? d * d
                     : L::Float(L::Bits(d) & kAbsMask));
  }
  return sum;
}

// The two candidates for a block whose largest magnitude is `clean`.
template <typename L>
QUANTD_FN void FourOverSixScales(const LineScale<L>& line, typename L::U clean,
                                 typename L::U* for_four,
                                 typename L::U* for_six) {
  using F = typename L::F;
  const F base = (L::Float(clean) / L::Broadcast(6.0f)) * line.s;
  *for_four = EncodeE4M3Positive<L>(base * 1.5f);
  *for_six = EncodeE4M3Positive<L>(base);
}

// Which of the two: that for 4 only where its error is smaller.
template <typename L>
QUANTD_FN BlockScale<L> FourOverSixScale(const EncodeParams& p,
                                         const LineScale<L>& line,
                                         const typename L::F* v,
                                         typename L::U max,
                                         typename L::U clean) {
  using U = typename L::U;
  U four, six;
  FourOverSixScales<L>(line, clean, &four, &six);
  U code = FourOverSixError<L>(p, line, v, four) <
                   FourOverSixError<L>(p, line, v, six)
               ? four
               : six;
  const U nan = U{} + 0x7Fu;
  if (p.propagate) code = max > kInfBits ? nan : code;
  return UnderScale<L>(p, line, code);
}

// Random bytes of 16 consecutive positions of each lane's line: from `first`'s
// counter byte `shift` on, then from `second`'s.
template <typename L>
struct RandomBytes {
  typename L::U words[8];
  int shift;

  QUANTD_FN typename L::U at(int i) const {
    const int j = i + shift;
    return (words[j / 4] >> (8 * (j % 4))) & 0xFFu;
  }
};

// `line` and `position` are global: rows and columns for the rowwise copy, and
// the other way round for the columnwise one. Lane i is line + i.
template <typename L>
QUANTD_FN RandomBytes<L> DrawBytes(const EncodeParams& p, bool columnwise,
                                   int64_t line, int64_t position) {
  RandomBytes<L> bytes;
  bytes.shift = static_cast<int>(position % 16);
  const uint64_t across = static_cast<uint64_t>(p.total_columns);
  const uint64_t per_row = (across + 15) / 16;
  const uint64_t l = static_cast<uint64_t>(line);
  const uint64_t b = static_cast<uint64_t>(position / 16);
  const uint64_t first = columnwise ? b * across + l : l * per_row + b;
  const uint64_t step = columnwise ? 1 : per_row;
  const uint64_t next = columnwise ? across : 1;
  const uint64_t subsequence = p.subsequence + (columnwise ? 1 : 0);
  Philox<L>(CountBy<L>(first, step), subsequence, p.seed, bytes.words);
  if (bytes.shift != 0) {
    Philox<L>(CountBy<L>(first + next, step), subsequence, p.seed,
              bytes.words + 4);
  }
  return bytes;
}

// Codes of 16 values: four words of FP8, or two of E2M1 with the first element
// in the low nibble.
template <typename L>
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
        const typename L::F y = v[8 * w + i] * m;
        const U code = random != nullptr
                           ? EncodeE2M1Stochastic<L>(y, random->at(8 * w + i))
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
      const typename L::F y = v[4 * w + i] * m;
      word |= (e4m3 ? EncodeE4M3<L>(y) : EncodeE5M2<L>(y)) << (8 * i);
    }
    words[w] = word;
  }
}

// Sixteen E2M1 codes with those from `count` on zero: padding is zero also in a
// block whose scale is NaN.
template <typename L>
QUANTD_FN void KeepCodes(int64_t count, typename L::U* words) {
  for (int w = 0; w < 2; ++w) {
    const int64_t kept = count - 8 * w;
    if (kept >= 8) continue;
    const uint32_t mask = kept <= 0 ? 0u : (1u << (4 * kept)) - 1u;
    words[w] = words[w] & mask;
  }
}

}  // namespace QUANTD_ARITH
}  // namespace quantd

#endif  // QUANTD_KERNELS_ARITH_ENCODE_H_
