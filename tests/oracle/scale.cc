#include "tests/oracle/scale.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace quantd::oracle {
namespace {

float Sixth() { return Div(1.0f, 6.0f); }

// The multiplier, limited to the largest float if the scale is zero or NaN.
float Multiplier(uint8_t scale, float encode_scale) {
  const float s_dec = Div(1.0f, encode_scale);
  return Capped(Div(1.0f, Mul(E4m3Value(scale), s_dec)));
}

// The error of a candidate's codes, summed within each line of 16 and then over
// the lines.
float CandidateError(const std::vector<float>& x, const BlockScale& scale,
                     float a, float range, FourOverSix metric, bool fast) {
  const float s = EncodeScale(a, range);
  const float sf = E4m3Value(static_cast<uint8_t>(scale.stored));
  std::vector<float> lines;
  for (size_t start = 0; start < x.size(); start += 16) {
    float sum = 0;
    for (size_t i = start; i < start + 16; ++i) {
      const float q = E2m1Value(E2m1Code(Mul(x[i], scale.multiplier)));
      const float d =
          fast ? Sub(RoundTo(Element::kF16, Mul(q, sf)), Mul(x[i], s))
               : Sub(Div(Mul(Mul(q, sf), a), range), x[i]);
      sum = Add(sum, metric == FourOverSix::kMae ? std::fabs(d) : Mul(d, d));
    }
    lines.push_back(sum);
  }
  for (size_t half = lines.size() / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) lines[i] = Add(lines[i], lines[i + half]);
  }
  return lines[0];
}

}  // namespace

float Amax(const std::vector<float>& values, Policy policy) {
  float largest = 0;
  for (float v : values) {
    if (std::isnan(v)) {
      if (policy == Policy::kPropagate) return kNaN;
    } else {
      largest = std::max(largest, std::fabs(v));
    }
  }
  return largest;
}

float EncodeScale(float a, float range) {
  const float s = Capped(Div(range, a));
  return a == 0 || s == 0 ? 1.0f : s;
}

float DecodeFactor(uint8_t scale, float a, float range) {
  const float sf = E4m3Value(scale);
  const float smallest = Div(range, kMax);
  if (a > 0 && a < smallest) a = smallest;
  if (a > Div(kMax, 448.0f)) return Mul(sf, Div(1.0f, EncodeScale(a, range)));
  return Mul(Mul(sf, a), Div(1.0f, range));
}

BlockScale Nvfp4Scale(float b, float encode_scale) {
  const uint8_t scale =
      std::isnan(b) ? 0x7F
                    : E4m3Code(Capped(Mul(b, Mul(encode_scale, Sixth()))));
  return {scale, Multiplier(scale, encode_scale)};
}

Block EncodeBlock(const float* x, float encode_scale, Policy policy) {
  const BlockScale scale = Nvfp4Scale(Amax({x, x + 16}, policy), encode_scale);
  Block out;
  out.scale = static_cast<uint8_t>(scale.stored);
  out.multiplier = scale.multiplier;
  for (int i = 0; i < 16; ++i) {
    out.codes[i] = E2m1Code(Mul(x[i], out.multiplier));
  }
  return out;
}

BlockScale SearchScale(const std::vector<float>& x, float a, Policy policy) {
  const float s = EncodeScale(a, kRange448);
  const float b = Amax(x, policy);
  if (std::isnan(b)) return {0x7F, Multiplier(0x7F, s)};
  const int wanted = E4m3Code(Capped(Mul(Div(b, 6.0f), s), 448.0f));
  BlockScale best;
  float least = 0;
  for (int step : {0, -1, 1, 4, 5, 6}) {
    const auto sf = static_cast<uint8_t>(std::clamp(wanted + step, 0, 0x7E));
    const BlockScale scale = {sf, Multiplier(sf, s)};
    const float error =
        CandidateError(x, scale, a, kRange448, FourOverSix::kMse, false);
    if (step != 0 && !(error < least)) continue;
    best = scale;
    least = error;
  }
  return best;
}

Candidates TryFourAndSix(const std::vector<float>& x, float a, float range,
                         FourOverSix metric, bool fast, Policy policy) {
  const float b = Amax(x, policy);
  const float s = EncodeScale(a, range);
  const float base = Mul(Div(b, 6.0f), s);
  const auto candidate = [&](float target) {
    // Capped would drop a NaN, which the scale must keep.
    const uint8_t sf = std::isnan(b) ? 0x7F : E4m3Code(Capped(target, 448.0f));
    Candidate c;
    c.scale = {sf, Multiplier(sf, s)};
    c.error = CandidateError(x, c.scale, a, range, metric, fast);
    return c;
  };
  Candidates out{candidate(Mul(base, 1.5f)), candidate(base)};
  out.pick_four = out.four.error < out.six.error;
  return out;
}

float CurrentScale(float amax, Code code, float epsilon, bool power_of_two,
                   float largest) {
  if (amax < epsilon) amax = epsilon;
  float scale = 1;
  if (std::isfinite(amax) && amax != 0) scale = Div(LargestCode(code), amax);
  if (std::isinf(scale)) scale = largest;
  if (!power_of_two) return scale;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scale) & 0xFF800000);
}

float NextScale(const History& history, Code code, float previous) {
  float amax = history.values[0];
  if (!history.most_recent) {
    for (float v : history.values) amax = std::fmax(amax, v);
  }
  if (!std::isfinite(amax) || amax <= 0) return previous;
  const float top =
      Narrow(std::ldexp(double{LargestCode(code)}, -history.margin));
  const float scale = Div(top, amax);
  return std::isinf(scale) ? kMax : scale;
}

std::vector<float> Roll(const std::vector<float>& values) {
  std::vector<float> out = values;
  std::rotate(out.begin(), out.begin() + 1, out.end());
  out[0] = 0;
  return out;
}

uint8_t MxScale(float b, Code code, ScaleRule rule) {
  if (std::isnan(b)) return 0xFF;
  if (std::isinf(b)) return 0xFE;
  if (rule == ScaleRule::kUp) {
    return E8m0Up(Mul(b, Div(1.0f, LargestCode(code))));
  }
  // The exponent of the largest code, and the number of mantissa bits.
  const int exponent = code == Code::kE2m1 ? 2 : code == Code::kE4m3 ? 8 : 15;
  const int fraction = code == Code::kE2m1 ? 1 : code == Code::kE4m3 ? 3 : 2;
  const uint32_t bits = std::bit_cast<uint32_t>(b);
  int biased = static_cast<int>(bits >> 23);
  if (rule == ScaleRule::kCeil && (bits & 0x7FFFFF) != 0) ++biased;
  if (rule == ScaleRule::kEven) {
    biased = static_cast<int>((bits + (1u << (22 - fraction))) >> 23);
  }
  return static_cast<uint8_t>(std::max(0, biased - exponent));
}

float MxMultiplier(uint8_t scale) {
  return scale == 0xFF ? kNaN : Narrow(std::ldexp(1.0, 127 - scale));
}

}  // namespace quantd::oracle
