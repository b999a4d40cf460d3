// What the numbers are called: element types, formats and the names of the
// parts of a tensor. Pure data, no dependencies; every other room includes it.
//
// Every value written out here travels on the wire or in a file. Never
// renumber one; add at the end.
#ifndef QUANTD_KERNELS_FORMAT_H_
#define QUANTD_KERNELS_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace quantd {

// Type of one stored element. kE2M1x2 is one byte that holds two E2M1 codes:
// element 2k in the low nibble, 2k+1 in the high nibble.
enum class DType : int32_t {
  kUnspecified = 0,
  kF32 = 1,
  kF16 = 2,
  kBF16 = 3,
  kE2M1x2 = 4,
  kE4M3 = 5,
  kE5M2 = 6,
  kE8M0 = 7,
};

// Bytes of one stored element; 0 for an unknown type.
constexpr size_t SizeOf(DType t) {
  switch (t) {
    case DType::kF32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kE2M1x2:
    case DType::kE4M3:
    case DType::kE5M2:
    case DType::kE8M0:
      return 1;
    case DType::kUnspecified:
      break;
  }
  return 0;
}

// True for the types a tensor to be quantized may have, which are also those
// a dequantized tensor may have.
constexpr bool IsFloat(DType t) {
  return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16;
}

// True where a quarter of any value is exact in fp32.
template <DType D>
inline constexpr bool kIsHalf = D == DType::kF16 || D == DType::kBF16;

enum class Format : int32_t {
  kUnspecified = 0,
  kNvfp4 = 1,
};

// One row of the format table: everything about a format that is data.
struct FormatSpec {
  Format format;
  std::string_view name;
  DType element;      // how the codes are stored
  DType scale;        // how a block's scale is stored
  int block;          // elements that share a scale, along the packed axis
  float element_max;  // largest element magnitude
  float scale_max;    // largest block scale
};

inline constexpr FormatSpec kFormats[] = {
    {Format::kNvfp4, "nvfp4", DType::kE2M1x2, DType::kE4M3, 16, 6.0f, 448.0f},
};

// The row of `f`, or nullptr when there is none.
constexpr const FormatSpec* FindFormat(Format f) {
  for (const FormatSpec& row : kFormats) {
    if (row.format == f) return &row;
  }
  return nullptr;
}

// Which of the two copies of a tensor is meant. A bit set.
enum class Usage : int32_t {
  kUnspecified = 0,
  kRowwise = 1,     // blocks along the columns of the M x K matrix
  kColumnwise = 2,  // blocks along its rows; stored as the K x M transpose
  kBoth = 3,
};
constexpr bool HasRowwise(Usage u) { return static_cast<int>(u) & 1; }
constexpr bool HasColumnwise(Usage u) { return static_cast<int>(u) & 2; }

// What happens to NaN and Inf in an input (the reply always reports them).
enum class NonFinite : int32_t {
  kIgnore = 0,     // NaN is dropped from every maximum
  kPropagate = 1,  // NaN makes the amax and its block's scale NaN
  kReject = 2,     // NaN or Inf anywhere fails the call
};

// Order of the bytes of a tensor.
enum class Layout : int32_t {
  kUnspecified = 0,
  kLinear = 1,  // row-major
};

// Role of a tensor inside a payload.
enum class TensorKind : int32_t {
  kUnspecified = 0,
  kInput = 1,               // the tensor to work on, in its own type
  kRowwiseData = 2,         // packed codes, M x K/2
  kRowwiseScale = 3,        // block scales, padded
  kRowwiseAmax = 4,         // fp32, the amax the rowwise codes were made with
  kColumnwiseData = 5,      // packed codes of the transpose, K x 8*ceil(M/16)
  kColumnwiseScale = 6,     // block scales, padded
  kColumnwiseAmax = 7,      // fp32
  kDequantized = 8,         // M x K
  kRotated = 9,             // M x K
  kRowwiseRhtAmax = 10,     // fp32, max |bf16(RHT of the rows)|
  kColumnwiseRhtAmax = 11,  // fp32, max |bf16(RHT of the columns)|
};

// Lower-case names, as on the command line and in messages: "bf16", "nvfp4".
std::string_view Name(DType t);
std::string_view Name(Format f);
std::string_view Name(Usage u);
std::string_view Name(NonFinite n);
std::string_view Name(Layout l);
std::string_view Name(TensorKind k);
std::optional<DType> ParseDType(std::string_view name);
std::optional<Format> ParseFormat(std::string_view name);
std::optional<Usage> ParseUsage(std::string_view name);
std::optional<NonFinite> ParseNonFinite(std::string_view name);

}  // namespace quantd

#endif  // QUANTD_KERNELS_FORMAT_H_
