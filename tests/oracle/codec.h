// The oracle's element types and codes. Values are looked up in tables, and
// codes are found by searching for the nearest value.
#ifndef QUANTD_TESTS_ORACLE_CODEC_H_
#define QUANTD_TESTS_ORACLE_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace quantd::oracle {

using Bytes = std::vector<uint8_t>;

enum class Element { kF32, kF16, kBF16 };

int ElementSize(Element e);
// The largest finite value of `e`: 3.4e38, 65504, 3.39e38.
float LargestFinite(Element e);

// Decodes and encodes one element of `e`, as bits in the low bytes. Encoding
// overflows to Inf. Every NaN becomes the quiet NaN without payload and sign.
float ElementValue(Element e, uint32_t bits);
uint32_t ElementBits(Element e, float x);
// The nearest value of `e`.
float RoundTo(Element e, float x);

std::vector<float> Values(Element e, const Bytes& bytes);
Bytes FromValues(Element e, const std::vector<float>& values);
// The bytes with every NaN replaced by the canonical one, for comparisons.
Bytes CanonicalNaNs(Element e, Bytes bytes);

// Encoders round to nearest, ties to the even code, and saturate, also for Inf;
// NaN is 0x7F in E4M3 and E5M2 and code 7 in E2M1, whatever its sign.
float E4m3Value(uint8_t code);
uint8_t E4m3Code(float x);
float E5m2Value(uint8_t code);
uint8_t E5m2Code(float x);
float E2m1Value(uint8_t code);
uint8_t E2m1Code(float x);

// A power of two without sign: 2^(code - 127), 0xFF is NaN.
float E8m0Value(uint8_t code);
// The smallest power of two that is not below x >= 0; Inf saturates.
uint8_t E8m0Up(float x);

// The three element codes of the formats.
enum class Code { kE2m1, kE4m3, kE5m2 };
float LargestCode(Code c);  // 6, 448, 57344
// The smallest magnitude that would round beyond the largest code, half a step
// above it.
float ClipThreshold(Code c);  // 7, 464, 61440
float CodeValue(Code c, uint8_t code);
uint8_t CodeOf(Code c, float x);

}  // namespace quantd::oracle

#endif  // QUANTD_TESTS_ORACLE_CODEC_H_
