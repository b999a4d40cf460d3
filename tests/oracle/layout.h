// The oracle's formats, and the positions of their codes and scales in memory.
#ifndef QUANTD_TESTS_ORACLE_LAYOUT_H_
#define QUANTD_TESTS_ORACLE_LAYOUT_H_

#include <cstddef>
#include <cstdint>

#include "tests/oracle/codec.h"

namespace quantd::oracle {

enum class Format {
  kNvfp4 = 1,
  kNvfp4Square = 2,
  kFp8E4M3 = 3,
  kFp8E5M2 = 4,
  kMxfp8E4M3 = 5,
  kMxfp8E5M2 = 6,
  kMxfp4 = 7,
  kFp8BlockE4M3 = 8,
  kFp8BlockE5M2 = 9,
  kFp8SquareE4M3 = 10,
  kFp8SquareE5M2 = 11,
  kFp8ChannelE4M3 = 12,
};
inline constexpr Format kFormats[] = {
    Format::kNvfp4,         Format::kNvfp4Square,   Format::kFp8E4M3,
    Format::kFp8E5M2,       Format::kMxfp8E4M3,     Format::kMxfp8E5M2,
    Format::kMxfp4,         Format::kFp8BlockE4M3,  Format::kFp8BlockE5M2,
    Format::kFp8SquareE4M3, Format::kFp8SquareE5M2, Format::kFp8ChannelE4M3};

Code CodeOf(Format f);
bool IsNvfp4(Format f);    // both NVFP4 formats
bool IsTensor(Format f);   // FP8 with one scale per tensor
bool IsChannel(Format f);  // FP8 with one scale for each line
bool IsMx(Format f);       // E8M0 scales
bool IsBlock(Format f);    // FP8 with fp32 scales of blocks or squares
bool IsSquare(Format f);   // one scale for a square of lines and positions
bool HasAmax(Format f);
// Positions along a line that share a scale; 0: the whole line.
int64_t BlockOf(Format f);

// The factor of codes under a stored scale (a byte or fp32 bits). `amax` and
// `range` are used only for NVFP4.
float FactorOf(Format f, uint32_t stored, float amax, float range);

// The index of the scale of row r, column c of a matrix with `columns` columns
// in the layout of 128 x 4 tiles.
int64_t SwizzleIndex(int64_t r, int64_t c, int64_t columns);

// One copy. A line is a row for the rowwise and a column for the columnwise
// copy; a position is an index along it.
struct Layout {
  Format format = Format::kNvfp4;
  bool columnwise = false;
  bool swizzled = false;
  bool compact = false;
  int scale_size = 1;       // bytes
  bool high_first = false;  // the even element is in the high nibble
  int64_t lines = 0;
  int64_t length = 0;  // positions of a line in the matrix
  int64_t padded = 0;  // `length` rounded up to whole blocks and rotations
  int64_t kept = 0;    // positions that have a code
  int64_t block = 0;
  int64_t blocks = 0;

  bool empty() const { return lines == 0 || length == 0; }
  size_t DataBytes() const;
  void PutCode(Bytes& data, int64_t line, int64_t at, uint8_t code) const;
  uint8_t GetCode(const uint8_t* data, int64_t line, int64_t at) const;

  size_t ScaleBytes() const;
  void PutScale(Bytes& scale, int64_t line, int64_t b, uint32_t bits) const;
  uint32_t GetScale(const uint8_t* scale, int64_t line, int64_t b) const;

 private:
  int64_t CodeIndex(int64_t line, int64_t at) const;
  int64_t ScaleIndex(int64_t line, int64_t b) const;
  int64_t ScaleCount() const;
};

// `rotated` is the dimension of the copy's rotation, or 0.
struct LayoutSpec {
  Format format = Format::kNvfp4;
  int64_t rows = 0;
  int64_t cols = 0;
  bool columnwise = false;
  int rotated = 0;
  bool swizzled = false;
  bool compact = false;
  // 0: the size that the format has.
  int scale_size = 0;
  bool high_first = false;
};
Layout MakeLayout(const LayoutSpec& spec);

}  // namespace quantd::oracle

#endif  // QUANTD_TESTS_ORACLE_LAYOUT_H_
