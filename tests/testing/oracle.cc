#include "tests/testing/oracle.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace quantd::oracle {
namespace {

constexpr float kMax = std::numeric_limits<float>::max();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// fp32 arithmetic by way of double.
float Narrow(double x) { return static_cast<float>(x); }
float Mul(float a, float b) { return Narrow(double{a} * double{b}); }
float Div(float a, float b) { return Narrow(double{a} / double{b}); }
float Add(float a, float b) { return Narrow(double{a} + double{b}); }
float Sub(float a, float b) { return Narrow(double{a} - double{b}); }
// fmin(x, FLT_MAX), which drops a NaN.
float Capped(float x) { return std::isnan(x) || x > kMax ? kMax : x; }

// A binary format as IEEE 754 describes one.
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

// Fields of a 16-bit pattern to a value and back; `x` is representable.
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
  // The leading one of a normal number carries into the exponent field.
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

constexpr float kE2m1[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};

const std::array<double, 127>& E4m3Table() {
  static const auto table = [] {
    std::array<double, 127> t;
    for (int i = 0; i < 127; ++i) {
      const int exponent = i / 8;
      const int eighths = i % 8;
      t[i] = exponent == 0 ? eighths / 512.0
                           : std::ldexp(1 + eighths / 8.0, exponent - 7);
    }
    return t;
  }();
  return table;
}

// The code of the table value nearest to x >= 0, a tie to the even code.
template <typename Table>
uint8_t Search(const Table& table, int size, double x) {
  int code = 0;
  while (code + 1 < size) {
    const double middle = (double{table[code]} + double{table[code + 1]}) / 2;
    if (x < middle || (x == middle && code % 2 == 0)) break;
    ++code;
  }
  return static_cast<uint8_t>(code);
}

void Butterfly(float* t) {
  for (int stride = 1; stride < 16; stride *= 2) {
    for (int i = 0; i < 16; ++i) {
      if (i & stride) continue;
      const float a = t[i];
      const float b = t[i + stride];
      t[i] = Add(a, b);
      t[i + stride] = Sub(a, b);
    }
  }
}

double Sign(uint16_t mask, int i) { return mask >> i & 1 ? -1.0 : 1.0; }

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

// The matrix as one copy sees it: lines of blocks, padded with zeros to whole
// blocks, rotated where asked.
struct Lines {
  int64_t lines = 0;
  int64_t blocks = 0;  // of 16, in a line
  std::vector<float> values;
};

Lines MakeLines(const std::vector<float>& x, int64_t rows, int64_t cols,
                bool columnwise, bool rotated, uint16_t mask) {
  Lines v;
  v.lines = columnwise ? cols : rows;
  const int64_t length = columnwise ? rows : cols;
  v.blocks = CeilDiv(length, 16);
  v.values.assign(v.lines * v.blocks * 16, 0.0f);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      const int64_t line = columnwise ? c : r;
      const int64_t at = columnwise ? r : c;
      v.values[line * v.blocks * 16 + at] = x[r * cols + c];
    }
  }
  if (rotated) {
    for (int64_t b = 0; b < v.lines * v.blocks; ++b) {
      float* block = &v.values[b * 16];
      Rotate(block, mask);
      for (int i = 0; i < 16; ++i) block[i] = RoundTo(Element::kBF16, block[i]);
    }
  }
  return v;
}

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

bool AnyNaN(const std::vector<float>& x) {
  return std::any_of(x.begin(), x.end(), [](float v) { return std::isnan(v); });
}
bool AnyInf(const std::vector<float>& x) {
  return std::any_of(x.begin(), x.end(), [](float v) { return std::isinf(v); });
}

Copy EncodeCopy(const Lines& v, std::optional<float> given, Policy policy) {
  Copy out;
  out.amax = given ? *given : Amax(v.values, policy);
  if (v.lines == 0 || v.blocks == 0) return out;
  const float s = EncodeScale(out.amax);
  const int64_t stride = RoundUp(v.blocks, 4);
  out.data.assign(v.lines * v.blocks * 8, 0);
  out.scale.assign(RoundUp(v.lines, 128) * stride, 0);
  for (int64_t line = 0; line < v.lines; ++line) {
    for (int64_t b = 0; b < v.blocks; ++b) {
      const int64_t index = line * v.blocks + b;
      const Block block = EncodeBlock(&v.values[index * 16], s, policy);
      out.scale[line * stride + b] = block.scale;
      for (int i = 0; i < 16; ++i) {
        out.data[index * 8 + i / 2] |= block.codes[i] << (i % 2 * 4);
      }
    }
  }
  return out;
}

}  // namespace

int ElementSize(Element e) { return e == Element::kF32 ? 4 : 2; }

float E4m3Value(uint8_t code) {
  const int magnitude = code & 0x7F;
  const double v = magnitude == 0x7F ? kNaN : E4m3Table()[magnitude];
  return Narrow(code & 0x80 ? -v : v);
}

uint8_t E4m3Code(float x) {
  if (std::isnan(x)) return 0x7F;
  return Search(E4m3Table(), 127, std::fabs(x)) | (std::signbit(x) ? 0x80 : 0);
}

float E2m1Value(uint8_t code) {
  return code & 8 ? -kE2m1[code & 7] : kE2m1[code & 7];
}

uint8_t E2m1Code(float x) {
  if (std::isnan(x)) return 7;
  return Search(kE2m1, 8, std::fabs(x)) | (std::signbit(x) ? 8 : 0);
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

void Rotate(float* x, uint16_t mask) {
  // Adding +0 turns a zero product into +0, as the fused operation does.
  for (int i = 0; i < 16; ++i) {
    x[i] = Narrow(double{x[i]} * (0.25 * Sign(mask, i)) + 0.0);
  }
  Butterfly(x);
}

void RotateBack(float* y, uint16_t mask) {
  for (int i = 0; i < 16; ++i) y[i] = Narrow(double{y[i]} * 0.25 + 0.0);
  Butterfly(y);
  for (int i = 0; i < 16; ++i) {
    y[i] = Narrow(double{y[i]} * Sign(mask, i) + 0.0);
  }
}

std::array<float, 16> RotateExactly(const float* x, uint16_t mask) {
  std::array<float, 16> y;
  for (int j = 0; j < 16; ++j) {
    long double sum = 0;
    for (int i = 0; i < 16; ++i) {
      const int flips = std::popcount(static_cast<unsigned>(i & j));
      sum += static_cast<long double>(x[i]) * Sign(mask, i) *
             (flips % 2 ? -0.25L : 0.25L);
    }
    y[j] = static_cast<float>(sum);
  }
  return y;
}

float EncodeScale(float a) {
  const float s = Capped(Div(2688.0f, a));
  return a == 0 || s == 0 ? 1.0f : s;
}

float DecodeFactor(uint8_t scale, float a) {
  const float sf = E4m3Value(scale);
  const float smallest = Div(2688.0f, kMax);
  if (a > 0 && a < smallest) a = smallest;
  if (a > Div(kMax, 448.0f)) return Mul(sf, Div(1.0f, EncodeScale(a)));
  return Mul(Mul(sf, a), Div(1.0f, 2688.0f));
}

Block EncodeBlock(const float* x, float encode_scale, Policy policy) {
  Block out;
  const float b = Amax({x, x + 16}, policy);
  const float sixth = Div(1.0f, 6.0f);
  out.scale =
      std::isnan(b) ? 0x7F : E4m3Code(Capped(Mul(b, Mul(encode_scale, sixth))));
  const float s_dec = Div(1.0f, encode_scale);
  out.multiplier = Capped(Div(1.0f, Mul(E4m3Value(out.scale), s_dec)));
  for (int i = 0; i < 16; ++i) {
    out.codes[i] = E2m1Code(Mul(x[i], out.multiplier));
  }
  return out;
}

Quantized Quantize(const QuantizeSpec& spec, const Bytes& input) {
  const std::vector<float> x = Values(spec.element, input);
  Quantized out;
  out.saw_nan = AnyNaN(x);
  out.saw_inf = AnyInf(x);
  if (spec.policy == Policy::kReject && (out.saw_nan || out.saw_inf)) {
    out.rejected = true;
    return out;
  }
  const bool rotate_rows = spec.rowwise && spec.rotate_rows;
  const bool rotate_columns = spec.columnwise && spec.rotate_columns;
  std::optional<float> row = spec.row_amax;
  std::optional<float> column = spec.column_amax;
  if (!rotate_rows && !rotate_columns) {
    if (!row) row = spec.column_amax;
    if (!column) column = spec.row_amax;
  }
  if (spec.rowwise) {
    out.rowwise = EncodeCopy(
        MakeLines(x, spec.rows, spec.cols, false, rotate_rows, spec.mask), row,
        spec.policy);
  }
  if (spec.columnwise) {
    out.columnwise = EncodeCopy(
        MakeLines(x, spec.rows, spec.cols, true, rotate_columns, spec.mask),
        column, spec.policy);
  }
  return out;
}

Bytes Dequantize(const DequantizeSpec& spec, const Copy& copy) {
  const int64_t lines = spec.columnwise ? spec.cols : spec.rows;
  const int64_t length = spec.columnwise ? spec.rows : spec.cols;
  const int64_t blocks = CeilDiv(length, 16);
  std::vector<float> out(spec.rows * spec.cols);
  for (int64_t line = 0; line < lines; ++line) {
    for (int64_t b = 0; b < blocks; ++b) {
      const uint8_t* packed = &copy.data[(line * blocks + b) * 8];
      const float factor =
          DecodeFactor(copy.scale[line * RoundUp(blocks, 4) + b], copy.amax);
      float v[16];
      for (int i = 0; i < 16; ++i) {
        const uint8_t code = packed[i / 2] >> (i % 2 * 4) & 0xF;
        v[i] = RoundTo(spec.output, Mul(E2m1Value(code), factor));
      }
      if (spec.inverse) RotateBack(v, spec.mask);
      for (int64_t i = 0; i < std::min<int64_t>(16, length - b * 16); ++i) {
        const int64_t at = b * 16 + i;
        out[spec.columnwise ? at * spec.cols + line : line * length + at] =
            v[i];
      }
    }
  }
  return FromValues(spec.output, out);
}

Amaxes RhtAmax(Element e, int64_t rows, int64_t cols, uint16_t mask,
               Policy policy, const Bytes& input) {
  const std::vector<float> x = Values(e, input);
  Amaxes out;
  if (policy == Policy::kReject && (AnyNaN(x) || AnyInf(x))) {
    out.rejected = true;
    return out;
  }
  out.row = out.column = Amax(x, policy);
  if (cols % 16 == 0) {
    out.row_rotated =
        Amax(MakeLines(x, rows, cols, false, true, mask).values, policy);
  }
  out.column_rotated =
      Amax(MakeLines(x, rows, cols, true, true, mask).values, policy);
  return out;
}

Bytes ApplyRht(Element e, Element output, uint16_t mask, bool inverse,
               const Bytes& input) {
  std::vector<float> x = Values(e, input);
  for (size_t b = 0; b + 16 <= x.size(); b += 16) {
    inverse ? RotateBack(&x[b], mask) : Rotate(&x[b], mask);
  }
  return FromValues(output, x);
}

}  // namespace quantd::oracle
