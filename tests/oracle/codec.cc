#include "tests/oracle/codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "tests/oracle/fp32.h"

namespace quantd::oracle {
namespace {

// A binary format as in IEEE 754.
struct Binary {
  int precision;
  int min_exponent;
  int max_exponent;
};
constexpr Binary kHalf = {11, -14, 15};
constexpr Binary kBrain = {8, -126, 127};

double Nearest(const Binary& f, double x) {
  if (x == 0 || !std::isfinite(x)) return x;
  int exponent;
  std::frexp(x, &exponent);
  const int quantum =
      std::max(exponent - 1, f.min_exponent) - (f.precision - 1);
  const double r = std::ldexp(std::nearbyint(std::ldexp(x, -quantum)), quantum);
  return std::fabs(r) >= std::ldexp(1.0, f.max_exponent + 1)
             ? std::copysign(INFINITY, x)
             : r;
}

// Converts fields of a 16-bit pattern to a value and back; `x` is
// representable.
double FromFields(const Binary& f, uint32_t bits) {
  const int stored = f.precision - 1;
  const int fraction = static_cast<int>(bits & ((1u << stored) - 1));
  const int exponent = static_cast<int>(bits & 0x7FFF) >> stored;
  const double sign = bits & 0x8000 ? -1.0 : 1.0;
  if (exponent == f.max_exponent - f.min_exponent + 2) {
    return fraction ? kNaN : sign * INFINITY;
  }
  const int whole = exponent == 0 ? 0 : 1 << stored;
  return sign * std::ldexp(double(whole + fraction),
                           std::max(exponent, 1) - 1 + f.min_exponent - stored);
}

uint32_t ToFields(const Binary& f, double x) {
  const int stored = f.precision - 1;
  const uint32_t top = f.max_exponent - f.min_exponent + 2;
  if (std::isnan(x)) return (top << stored) | (1u << (stored - 1));
  const uint32_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isinf(x)) return sign | (top << stored);
  if (x == 0) return sign;
  int exponent;
  std::frexp(x, &exponent);
  exponent = std::max(exponent - 1, f.min_exponent);
  // The leading 1 of a normal number is carried into the exponent field.
  const auto digits =
      static_cast<uint32_t>(std::ldexp(std::fabs(x), stored - exponent));
  return sign | ((uint32_t(exponent - f.min_exponent) << stored) + digits);
}

const Binary& BinaryOf(Element e) {
  return e == Element::kF16 ? kHalf : kBrain;
}

std::vector<float> ValueTable(const Binary& f) {
  std::vector<float> table(1 << 16);
  for (uint32_t i = 0; i < table.size(); ++i) table[i] = FromFields(f, i);
  return table;
}

constexpr double kE2m1[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

// The finite values of an 8-bit format, in the order of their codes.
template <int count, int stored, int bias>
std::array<double, count> MiniFloats() {
  constexpr int kSteps = 1 << stored;
  std::array<double, count> t;
  for (int i = 0; i < count; ++i) {
    const int exponent = i / kSteps;
    const double fraction = double(i % kSteps) / kSteps;
    t[i] = exponent == 0 ? std::ldexp(fraction, 1 - bias)
                         : std::ldexp(1 + fraction, exponent - bias);
  }
  return t;
}
const std::array<double, 127>& E4m3Table() {
  static const auto table = MiniFloats<127, 3, 7>();
  return table;
}
const std::array<double, 124>& E5m2Table() {
  static const auto table = MiniFloats<124, 2, 15>();
  return table;
}

// The code of the table value nearest to x >= 0; a tie gives the even code.
template <typename Table>
uint8_t Search(const Table& table, double x) {
  const auto above = std::upper_bound(std::begin(table), std::end(table), x);
  const auto code = above - std::begin(table) - 1;
  if (above == std::end(table)) return static_cast<uint8_t>(code);
  const double down = x - table[code];
  const double up = *above - x;
  const bool rises = up < down || (up == down && code % 2 == 1);
  return static_cast<uint8_t>(code + rises);
}

}  // namespace

int ElementSize(Element e) { return e == Element::kF32 ? 4 : 2; }

float LargestFinite(Element e) {
  if (e == Element::kF32) return kMax;
  return e == Element::kF16 ? 65504.0f : Narrow(0x1.FEp127);
}

float ElementValue(Element e, uint32_t bits) {
  if (e == Element::kF32) return std::bit_cast<float>(bits);
  static const std::vector<float> half = ValueTable(kHalf);
  static const std::vector<float> brain = ValueTable(kBrain);
  return (e == Element::kF16 ? half : brain)[bits & 0xFFFF];
}

uint32_t ElementBits(Element e, float x) {
  if (e == Element::kF32) {
    return std::isnan(x) ? 0x7FC00000u : std::bit_cast<uint32_t>(x);
  }
  return ToFields(BinaryOf(e), Nearest(BinaryOf(e), x));
}

float RoundTo(Element e, float x) {
  return e == Element::kF32 ? x : Narrow(Nearest(BinaryOf(e), x));
}

std::vector<float> Values(Element e, const Bytes& bytes) {
  const size_t size = ElementSize(e);
  std::vector<float> values(bytes.size() / size);
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t bits = 0;
    std::memcpy(&bits, &bytes[i * size], size);
    values[i] = ElementValue(e, bits);
  }
  return values;
}

Bytes FromValues(Element e, const std::vector<float>& values) {
  const size_t size = ElementSize(e);
  Bytes bytes(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint32_t bits = ElementBits(e, values[i]);
    std::memcpy(&bytes[i * size], &bits, size);
  }
  return bytes;
}

Bytes CanonicalNaNs(Element e, Bytes bytes) {
  const size_t size = ElementSize(e);
  const uint32_t canonical = ElementBits(e, kNaN);
  for (size_t at = 0; at + size <= bytes.size(); at += size) {
    uint32_t bits = 0;
    std::memcpy(&bits, &bytes[at], size);
    if (std::isnan(ElementValue(e, bits))) {
      std::memcpy(&bytes[at], &canonical, size);
    }
  }
  return bytes;
}

float E4m3Value(uint8_t code) {
  const int magnitude = code & 0x7F;
  const double v = magnitude == 0x7F ? kNaN : E4m3Table()[magnitude];
  return Narrow(code & 0x80 ? -v : v);
}

uint8_t E4m3Code(float x) {
  if (std::isnan(x)) return 0x7F;
  return Search(E4m3Table(), std::fabs(x)) | (std::signbit(x) ? 0x80 : 0);
}

float E5m2Value(uint8_t code) {
  const int magnitude = code & 0x7F;
  const double v = magnitude > 0x7C    ? kNaN
                   : magnitude == 0x7C ? INFINITY
                                       : E5m2Table()[magnitude];
  return Narrow(code & 0x80 ? -v : v);
}

uint8_t E5m2Code(float x) {
  if (std::isnan(x)) return 0x7F;
  return Search(E5m2Table(), std::fabs(x)) | (std::signbit(x) ? 0x80 : 0);
}

float E2m1Value(uint8_t code) {
  return Narrow(code & 8 ? -kE2m1[code & 7] : kE2m1[code & 7]);
}

uint8_t E2m1Code(float x) {
  if (std::isnan(x)) return 7;
  return Search(kE2m1, std::fabs(x)) | (std::signbit(x) ? 8 : 0);
}

float E8m0Value(uint8_t code) {
  return code == 0xFF ? kNaN : Narrow(std::ldexp(1.0, code - 127));
}

uint8_t E8m0Up(float x) {
  if (std::isnan(x)) return 0xFF;
  int code = 0;
  while (code < 0xFE && E8m0Value(code) < x) ++code;
  return static_cast<uint8_t>(code);
}

float LargestCode(Code c) {
  return c == Code::kE2m1 ? 6.0f : c == Code::kE4m3 ? 448.0f : 57344.0f;
}

float ClipThreshold(Code c) {
  return c == Code::kE2m1 ? 7.0f : c == Code::kE4m3 ? 464.0f : 61440.0f;
}

float CodeValue(Code c, uint8_t code) {
  return c == Code::kE2m1   ? E2m1Value(code)
         : c == Code::kE4m3 ? E4m3Value(code)
                            : E5m2Value(code);
}

uint8_t CodeOf(Code c, float x) {
  return c == Code::kE2m1   ? E2m1Code(x)
         : c == Code::kE4m3 ? E4m3Code(x)
                            : E5m2Code(x);
}

}  // namespace quantd::oracle
