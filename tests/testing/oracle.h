// A slow reference for every byte the product computes. It shares nothing with
// the product, not a header and not an enum: values come from tables, codes
// from a linear search, and every fp32 operation is a double operation rounded
// once (which is exact: 53 >= 2 * 24 + 2).
//
// A tensor is a row-major M x K matrix of raw bytes. Nothing here checks
// legality: callers ask for legal things.
#ifndef QUANTD_TESTS_TESTING_ORACLE_H_
#define QUANTD_TESTS_TESTING_ORACLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace quantd::oracle {

using Bytes = std::vector<uint8_t>;

enum class Element { kF32, kF16, kBF16 };
enum class Policy { kIgnore, kPropagate, kReject };

int ElementSize(Element e);

// Codes. Encoders round to nearest, ties to the even code, and saturate;
// NaN is 0x7F in E4M3 and code 7 in E2M1.
float E4m3Value(uint8_t code);
uint8_t E4m3Code(float x);
float E2m1Value(uint8_t code);
uint8_t E2m1Code(float x);

// One element of `e`, as bits in the low bytes. Encoding overflows to Inf;
// every NaN becomes the quiet one without payload or sign.
float ElementValue(Element e, uint32_t bits);
uint32_t ElementBits(Element e, float x);
// The nearest value of `e`.
float RoundTo(Element e, float x);

std::vector<float> Values(Element e, const Bytes& bytes);
Bytes FromValues(Element e, const std::vector<float>& values);
// Every NaN replaced by the canonical one, for comparing.
Bytes CanonicalNaNs(Element e, Bytes bytes);

// Bit i of `mask` set iff sign i is -1. In place, no rounding but fp32's.
void Rotate(float* x, uint16_t mask);
void RotateBack(float* y, uint16_t mask);
// The same as an exact sum (where long double holds it) over the matrix, one
// rounding to fp32.
std::array<float, 16> RotateExactly(const float* x, uint16_t mask);

// Scales of NVFP4, from the global amax `a`.
float EncodeScale(float a);
float DecodeFactor(uint8_t scale, float a);

struct Block {
  uint8_t scale = 0;
  float multiplier = 0;
  std::array<uint8_t, 16> codes = {};
};
Block EncodeBlock(const float* x, float encode_scale, Policy policy);

struct QuantizeSpec {
  Element element = Element::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  bool rowwise = true;
  bool columnwise = false;
  bool rotate_rows = false;
  bool rotate_columns = false;
  uint16_t mask = 0;
  Policy policy = Policy::kIgnore;
  std::optional<float> row_amax;
  std::optional<float> column_amax;
};

struct Copy {
  Bytes data;
  Bytes scale;
  float amax = 0;
};

struct Quantized {
  bool rejected = false;  // then there is nothing else
  bool saw_nan = false;
  bool saw_inf = false;
  Copy rowwise;
  Copy columnwise;
};
Quantized Quantize(const QuantizeSpec& spec, const Bytes& input);

struct DequantizeSpec {
  int64_t rows = 0;
  int64_t cols = 0;
  bool columnwise = false;
  bool inverse = false;
  uint16_t mask = 0;
  Element output = Element::kF32;
};
Bytes Dequantize(const DequantizeSpec& spec, const Copy& copy);

struct Amaxes {
  bool rejected = false;
  float row = 0;
  float row_rotated = 0;  // only where K % 16 == 0
  float column = 0;
  float column_rotated = 0;
};
Amaxes RhtAmax(Element e, int64_t rows, int64_t cols, uint16_t mask,
               Policy policy, const Bytes& input);

// Rows in blocks along K, which 16 divides.
Bytes ApplyRht(Element e, Element output, uint16_t mask, bool inverse,
               const Bytes& input);

}  // namespace quantd::oracle

#endif  // QUANTD_TESTS_TESTING_ORACLE_H_
