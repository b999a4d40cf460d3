#include "tests/oracle/layout.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tests/oracle/scale.h"

namespace quantd::oracle {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

}  // namespace

Code CodeOf(Format f) {
  switch (f) {
    case Format::kNvfp4:
    case Format::kNvfp4Square:
    case Format::kMxfp4:
      return Code::kE2m1;
    case Format::kFp8E5M2:
    case Format::kMxfp8E5M2:
    case Format::kFp8BlockE5M2:
    case Format::kFp8SquareE5M2:
      return Code::kE5m2;
    default:
      return Code::kE4m3;
  }
}

bool IsNvfp4(Format f) {
  return f == Format::kNvfp4 || f == Format::kNvfp4Square;
}
bool IsTensor(Format f) {
  return f == Format::kFp8E4M3 || f == Format::kFp8E5M2;
}
bool IsMx(Format f) {
  return f == Format::kMxfp8E4M3 || f == Format::kMxfp8E5M2 ||
         f == Format::kMxfp4;
}
bool IsChannel(Format f) { return f == Format::kFp8ChannelE4M3; }
bool IsBlock(Format f) {
  return !IsNvfp4(f) && !IsTensor(f) && !IsMx(f) && !IsChannel(f);
}
bool IsSquare(Format f) {
  return f == Format::kNvfp4Square || f == Format::kFp8SquareE4M3 ||
         f == Format::kFp8SquareE5M2;
}
bool HasAmax(Format f) { return IsNvfp4(f) || IsTensor(f) || IsChannel(f); }

int64_t BlockOf(Format f) {
  if (IsTensor(f) || IsChannel(f)) return 0;
  return IsNvfp4(f) ? 16 : IsMx(f) ? 32 : 128;
}

float FactorOf(Format f, uint32_t stored, float amax, float range) {
  const auto byte = static_cast<uint8_t>(stored);
  if (IsNvfp4(f)) return DecodeFactor(byte, amax, range);
  return IsMx(f) ? E8m0Value(byte) : std::bit_cast<float>(stored);
}

int64_t SwizzleIndex(int64_t r, int64_t c, int64_t columns) {
  const int64_t tile = r / 128 * CeilDiv(columns, 4) + c / 4;
  return tile * 512 + r % 32 * 16 + r % 128 / 32 * 4 + c % 4;
}

Layout MakeLayout(const LayoutSpec& s) {
  Layout l;
  l.format = s.format;
  l.columnwise = s.columnwise;
  l.swizzled = s.swizzled;
  l.compact = s.compact;
  l.lines = s.columnwise ? s.cols : s.rows;
  l.length = s.columnwise ? s.rows : s.cols;
  l.high_first = s.high_first;
  l.scale_size = s.scale_size;
  if (l.scale_size == 0) {
    l.scale_size = IsNvfp4(s.format) || IsMx(s.format) ? 1 : 4;
  }
  if (IsTensor(s.format) || IsChannel(s.format)) {
    l.block = l.padded = l.kept = l.length;
    l.blocks = 1;
    return l;
  }
  l.block = BlockOf(s.format);
  l.padded = RoundUp(l.length, std::max<int64_t>(l.block, s.rotated));
  l.blocks = l.padded / l.block;
  const bool whole = CodeOf(s.format) == Code::kE2m1 || s.rotated > 0;
  l.kept = whole ? l.padded : l.length;
  return l;
}

size_t Layout::DataBytes() const {
  if (empty()) return 0;
  return CodeOf(format) == Code::kE2m1 ? lines * kept / 2 : lines * kept;
}

// Columnwise copies are stored as the transpose, except for MXFP8, which is
// stored as M x K.
int64_t Layout::CodeIndex(int64_t line, int64_t at) const {
  const bool mxfp8 = IsMx(format) && CodeOf(format) != Code::kE2m1;
  return mxfp8 && columnwise ? at * lines + line : line * kept + at;
}

void Layout::PutCode(Bytes& data, int64_t line, int64_t at,
                     uint8_t code) const {
  const int64_t index = CodeIndex(line, at);
  if (CodeOf(format) == Code::kE2m1) {
    data[index / 2] |= code << ((index % 2 != 0) != high_first ? 4 : 0);
  } else {
    data[index] = code;
  }
}

uint8_t Layout::GetCode(const uint8_t* data, int64_t line, int64_t at) const {
  const int64_t index = CodeIndex(line, at);
  if (CodeOf(format) != Code::kE2m1) return data[index];
  return data[index / 2] >> ((index % 2 != 0) != high_first ? 4 : 0) & 0xF;
}

int64_t Layout::ScaleIndex(int64_t line, int64_t b) const {
  if (IsTensor(format)) return 0;
  if (IsChannel(format)) return line;
  if (IsBlock(format)) {
    return IsSquare(format) ? line / 128 * RoundUp(blocks, 4) + b
                            : b * RoundUp(lines, 4) + line;
  }
  if (compact) return line / 16 * blocks + b;
  if (swizzled) return SwizzleIndex(line, b, blocks);
  const bool mxfp8 = IsMx(format) && CodeOf(format) != Code::kE2m1;
  return mxfp8 && columnwise ? b * RoundUp(lines, 128) + line
                             : line * RoundUp(blocks, 4) + b;
}

int64_t Layout::ScaleCount() const {
  if (IsTensor(format)) return 1;
  if (IsChannel(format)) return lines;
  if (empty()) return 0;
  if (IsBlock(format)) {
    return IsSquare(format) ? CeilDiv(lines, 128) * RoundUp(blocks, 4)
                            : blocks * RoundUp(lines, 4);
  }
  if (compact) return CeilDiv(lines, 16) * blocks;
  return RoundUp(lines, 128) * RoundUp(blocks, 4);
}

size_t Layout::ScaleBytes() const { return ScaleCount() * scale_size; }

void Layout::PutScale(Bytes& scale, int64_t line, int64_t b,
                      uint32_t bits) const {
  const int size = scale_size;
  std::memcpy(&scale[ScaleIndex(line, b) * size], &bits, size);
}

uint32_t Layout::GetScale(const uint8_t* scale, int64_t line, int64_t b) const {
  const int size = scale_size;
  uint32_t bits = 0;
  std::memcpy(&bits, &scale[ScaleIndex(line, b) * size], size);
  return bits;
}

}  // namespace quantd::oracle
