#include "tests/oracle/profile.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace quantd::oracle {
namespace {

bool IsModelopt(Profile p) {
  return p == Profile::kModelopt || p == Profile::kModeloptCuda;
}
bool IsCompressedTensors(Profile p) {
  return p == Profile::kCompressedTensors ||
         p == Profile::kCompressedTensorsCuda;
}
bool IsTorchao(Profile p) {
  return p == Profile::kTorchao || p == Profile::kTorchaoCuda;
}
bool IsComfy(Profile p) {
  return p == Profile::kComfy || p == Profile::kComfyCuda;
}
bool IsDeepgemm(Profile p) {
  return p == Profile::kDeepgemm || p == Profile::kDeepgemmCuda;
}

// Divides a tensor by a number as PyTorch does, which multiplies by the inverse
// on a GPU.
float OverNumber(Profile p, float x, float number) {
  switch (p) {
    case Profile::kModeloptCuda:
    case Profile::kTorchaoCuda:
    case Profile::kComfyCuda:
    case Profile::kDeepgemmCuda:
      return Mul(x, Div(1.0f, number));
    default:
      return Div(x, number);
  }
}

bool Usable(float x) { return std::isfinite(x) && x > 0; }

float Epsilon(Element t) {
  return std::ldexp(1.0f, t == Element::kF32   ? -23
                          : t == Element::kF16 ? -10
                                               : -7);
}
float Tiny(Element t) {
  return std::ldexp(1.0f, t == Element::kF16 ? -14 : -126);
}

// floor(log2 x) of a positive x.
int Octave(float x) { return std::ilogb(x); }

}  // namespace

int ScaleSizeOf(Profile p, Format f, Element t) {
  const bool fp8 = IsTensor(f) || IsBlock(f) || IsChannel(f);
  if (!fp8) return 1;
  return IsCompressedTensors(p) ? ElementSize(t) : 4;
}

bool HasGlobal(Profile p, Format f) { return p != Profile::kTe && IsNvfp4(f); }

float GlobalOf(Profile p, Element t, float amax) {
  if (p == Profile::kMiles) return Div(1.0f, EncodeScale(amax));
  if (std::isnan(amax)) return 1.0f;
  float g;
  if (IsCompressedTensors(p)) {
    const float inverse = RoundTo(t, Div(1.0f, std::max(amax, Tiny(t))));
    g = RoundTo(t, Mul(inverse, 2688.0f));
  } else {
    g = OverNumber(p, amax, 2688.0f);
    if (IsComfy(p)) g = RoundTo(t, g);
  }
  return Usable(g) ? g : 1.0f;
}

bool HighFirst(Profile p) { return IsComfy(p); }

uint32_t Library::Scale(float b, float amax) const {
  if (IsNvfp4(f_)) return std::isnan(b) ? 0x7F : Nvfp4Scale(b, amax);
  if (IsMx(f_)) return std::isnan(b) ? 0xFF : MxScale(b);
  if (IsBlock(f_) && std::isnan(b)) return std::bit_cast<uint32_t>(kNaN);
  return std::bit_cast<uint32_t>(Fp8Scale(b));
}

uint8_t Library::Nvfp4Scale(float b, float amax) const {
  const float g = GlobalOf(p_, t_, amax);
  if (p_ == Profile::kMiles) {
    return static_cast<uint8_t>(
        oracle::Nvfp4Scale(b, EncodeScale(amax)).stored);
  }
  if (IsModelopt(p_)) {
    const float wanted = Div(b, Mul(6.0f, g));
    if (wanted == 0) return E4m3Code(1.0f);
    return E4m3Code(std::clamp(wanted, std::ldexp(1.0f, -9), 448.0f));
  }
  if (IsCompressedTensors(p_)) {
    const float wanted = Mul(g, RoundTo(t_, Div(b, 6.0f)));
    const uint8_t code = E4m3Code(std::min(wanted, 448.0f));
    return code == 0 ? E4m3Code(0.125f) : code;
  }
  const float wanted = Div(OverNumber(p_, b, 6.0f), g);
  const float least = IsTorchao(p_) ? std::ldexp(1.0f, -6) : 0.0f;
  return E4m3Code(std::clamp(wanted, least, 448.0f));
}

float Library::ScaledNvfp4(float x, uint8_t scale, float amax) const {
  const float g = GlobalOf(p_, t_, amax);
  const float sf = E4m3Value(scale);
  if (p_ == Profile::kMiles) {
    const float s_dec = Div(1.0f, EncodeScale(amax));
    return Mul(x, Capped(Div(1.0f, Mul(sf, s_dec))));
  }
  if (IsTorchao(p_)) return x == 0 ? x : Mul(x, Div(Div(1.0f, g), sf));
  if (IsCompressedTensors(p_)) return x == 0 ? x : Div(x, Div(sf, g));
  const float whole = Mul(sf, g);
  if (IsComfy(p_) && whole == 0) return std::isnan(x) ? x : 0.0f;
  return x == 0 ? x : Div(x, whole);
}

float Library::Fp8Scale(float amax) const {
  if (std::isnan(amax)) return 1.0f;
  if (IsDeepgemm(p_)) amax = std::max(amax, 1e-4f);
  // ModelOpt's export raises maxima like this if a quantizer has several.
  if (IsModelopt(p_) && !IsTensor(f_) && amax != 0) {
    amax = std::max(amax, Tiny(t_));
  }
  float s = OverNumber(p_, amax, 448.0f);
  if (IsCompressedTensors(p_)) {
    s = RoundTo(t_, s);
    if (s == 0) s = Epsilon(t_);
  }
  return Usable(s) ? s : 1.0f;
}

float Library::ScaledFp8(float x, float s) const {
  if (x == 0) return x;
  if (IsDeepgemm(p_)) return Mul(x, Div(1.0f, s));
  if (p_ == Profile::kCompressedTensorsCuda) return Div(x, s);
  if (IsCompressedTensors(p_)) return RoundTo(t_, Div(x, s));
  // ModelOpt: with several scales the quotient is fp32. With a single scale it
  // has the tensor's type.
  if (!IsTensor(f_)) return Div(x, s);
  if (p_ == Profile::kModeloptCuda) s = RoundTo(t_, s);
  return RoundTo(t_, Div(x, s));
}

uint8_t Library::MxScale(float b) const {
  if (std::isinf(b)) return 0xFE;
  const Code code = CodeOf(f_);
  const bool by_logarithm =
      IsModelopt(p_) || (IsTorchao(p_) && rule_ == ScaleRule::kUp);
  if (by_logarithm) {
    const float wanted = Div(b, LargestCode(code));
    if (wanted == 0) return 0;
    const float log = Narrow(std::log2(double{wanted}));
    return static_cast<uint8_t>(std::clamp(std::ceil(log), -127.0f, 127.0f) +
                                127);
  }
  if (IsTorchao(p_)) return oracle::MxScale(b, code, rule_);
  // compressed-tensors: a mantissa of 1.75 or more counts as the next octave. A
  // subnormal number of the input's type counts as the least normal number if
  // it is at least 0.75 of it, and otherwise as 0.
  const int largest = t_ == Element::kF16 ? 15 : 127;
  int octave;
  if (b >= Tiny(t_)) {
    const float mantissa = std::ldexp(b, -Octave(b));
    octave = std::min(Octave(b) + (mantissa >= 1.75f ? 1 : 0), largest);
  } else if (b >= Mul(Tiny(t_), 0.75f)) {
    octave = Octave(Tiny(t_));
  } else {
    octave = -1000;
  }
  const int stored = octave + 127 - (code == Code::kE2m1 ? 2 : 8);
  // A scale below 2^-24 becomes 0 in fp16, and 0 is replaced by 1.
  if (t_ == Element::kF16 && stored - 127 < -24) return 127;
  return static_cast<uint8_t>(std::max(stored, 0));
}

float Library::ScaledMx(float x, uint8_t scale) const {
  if (scale == 0xFF) return x == 0 ? x : kNaN;
  const auto over = [&](int exponent) {
    return Narrow(std::ldexp(double{x}, -exponent));
  };
  if (IsTorchao(p_)) {
    if (rule_ == ScaleRule::kUp && scale == 0) return x;
    return over(std::max(scale - 127, -126));
  }
  if (IsCompressedTensors(p_)) return RoundTo(t_, over(scale - 127));
  return over(scale - 127);
}

float Library::Scaled(float x, uint32_t scale, float amax) const {
  if (IsNvfp4(f_)) return ScaledNvfp4(x, static_cast<uint8_t>(scale), amax);
  if (IsMx(f_)) return ScaledMx(x, static_cast<uint8_t>(scale));
  return ScaledFp8(x, std::bit_cast<float>(scale));
}

uint8_t Library::CodeUnder(float x, uint32_t scale, float amax) const {
  const float y = Scaled(x, scale, amax);
  const Code code = CodeOf(f_);
  if (code != Code::kE2m1) return CodeOf(code, y);
  if (std::isnan(y)) return 7;
  if (IsModelopt(p_) && IsMx(f_)) {
    // The code's magnitude is the number of midpoints below |y|; 0 counts as
    // negative.
    uint8_t magnitude = 0;
    for (uint8_t c = 0; c < 7; ++c) {
      const float midpoint = (E2m1Value(c) + E2m1Value(c + 1)) / 2;
      if (std::fabs(y) > midpoint) magnitude = c + 1;
    }
    return magnitude | (y > 0 ? 0 : 8);
  }
  uint8_t bits = E2m1Code(std::fabs(y));
  const bool by_comparison = IsModelopt(p_) || IsCompressedTensors(p_);
  if (by_comparison ? y < 0 : std::signbit(y)) bits |= 8;
  return bits;
}

float FactorUnder(Profile p, Format f, Element output, uint32_t stored,
                  float global) {
  const auto byte = static_cast<uint8_t>(stored);
  if (IsMx(f)) {
    const float power = E8m0Value(byte);
    return IsTorchao(p) ? RoundTo(output, power) : power;
  }
  if (IsNvfp4(f)) {
    const float sf = E4m3Value(byte);
    if (IsCompressedTensors(p)) return Div(sf, global);
    if (!IsComfy(p)) return Mul(sf, global);
    return RoundTo(output, Mul(sf, RoundTo(output, global)));
  }
  const float scale = std::bit_cast<float>(stored);
  return IsModelopt(p) ? RoundTo(output, scale) : scale;
}

}  // namespace quantd::oracle
