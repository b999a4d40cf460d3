// Element types, formats and the parts of a tensor, and their names. This
// header is pure data without dependencies; all other headers include it.
//
// Enumerators with an explicit number are sent or saved in files. Never
// renumber one; add new ones at the end.
#ifndef QUANTD_FORMAT_H_
#define QUANTD_FORMAT_H_

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

// True for the types that a tensor may have before it is quantized and after it
// is dequantized.
constexpr bool IsFloat(DType t) {
  return t == DType::kF32 || t == DType::kF16 || t == DType::kBF16;
}

// True for the 16-bit types, whose values stay exact when divided by four in
// fp32.
template <DType D>
inline constexpr bool kIsHalf = D == DType::kF16 || D == DType::kBF16;

enum class Format : int32_t {
  kUnspecified = 0,
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

// The library and version whose arithmetic is used. Names that end in Cuda
// stand for the library's GPU code where its bytes differ from the CPU code's.
// FORMATS.md has the arithmetic of each.
enum class Profile : int32_t {
  kTe = 0,
  kModelopt047 = 1,
  kModelopt047Cuda = 2,
  kCompressedTensors020 = 3,
  kCompressedTensors020Cuda = 4,
  kTorchao018 = 5,
  kTorchao018Cuda = 6,
  kComfy0240 = 7,
  kComfy0240Cuda = 8,
  kDeepgemm = 9,
  kDeepgemmCuda = 10,
  kMiles = 11,
};

// How scales are made. FORMATS.md has a section for each.
enum class Scaling : int32_t {
  kNvfp4,    // a global amax, and an E4M3 scale for every block
  kTensor,   // one fp32 scale
  kMx,       // a power of two for every block
  kBlock,    // an fp32 scale for every block
  kChannel,  // an fp32 scale for every line
};

// Options that a request may combine with a format: bits of
// FormatSpec::options.
enum Option : uint32_t {
  kOptRht = 1 << 0,
  kOptStochastic = 1 << 1,
  kOptRowScaled = 1 << 2,
  kOptFourOverSix = 1 << 3,
  kOptSwizzled = 1 << 4,
  kOptCompact = 1 << 5,
  kOptGivenAmax = 1 << 6,
  kOptEstimation = 1 << 7,
  kOptEpsilon = 1 << 8,
  kOptPowerOfTwo = 1 << 9,
  kOptGivenScale = 1 << 10,
  kOptHistory = 1 << 11,
  kOptScaleRule = 1 << 12,
  kOptGrouped = 1 << 13,
  kOptDbias = 1 << 14,
  kOptStatistics = 1 << 15,
  kOptProfile = 1 << 16,
  kOptScaleSearch = 1 << 17,
  // Options that every format allows.
  kOptAlways = kOptGrouped | kOptDbias | kOptStatistics,
};

// The limits of an element type of codes.
struct ElementLimits {
  DType element;
  float max;     // largest magnitude
  int emax;      // exponent of `max`
  int mantissa;  // stored bits
  float clip;    // least magnitude that would round beyond `max`
};
inline constexpr ElementLimits kElementLimits[] = {
    {.element = DType::kE2M1x2, .max = 6, .emax = 2, .mantissa = 1, .clip = 7},
    {.element = DType::kE4M3,
     .max = 448,
     .emax = 8,
     .mantissa = 3,
     .clip = 464},
    {.element = DType::kE5M2,
     .max = 57344,
     .emax = 15,
     .mantissa = 2,
     .clip = 61440},
};

// The row of `element`, which must be one of the types above.
constexpr const ElementLimits& LimitsOf(DType element) {
  const ElementLimits* row = kElementLimits;
  while (row->element != element) ++row;
  return *row;
}

// A row of the format table, with the properties of a format. A line is a row
// of a rowwise copy or a column of a columnwise copy.
struct FormatSpec {
  Format format;
  std::string_view name;
  Scaling scaling;
  DType element;           // how the codes are stored
  DType scale;             // how a scale is stored
  int block = 0;           // elements of a line that share a scale; 0: all
  bool square = false;     // `block` adjacent lines share the scale, too
  bool transposed = true;  // the columnwise copy is stored as K lines
  uint32_t options = 0;    // bits of the legal Options
};

inline constexpr uint32_t kNvfp4Options = kOptAlways | kOptGivenAmax |
                                          kOptFourOverSix | kOptScaleSearch |
                                          kOptSwizzled | kOptStochastic;
inline constexpr uint32_t kTensorOptions = kOptAlways | kOptGivenAmax |
                                           kOptEpsilon | kOptPowerOfTwo |
                                           kOptGivenScale | kOptHistory;
inline constexpr uint32_t kChannelOptions =
    kOptAlways | kOptGivenAmax | kOptEpsilon | kOptPowerOfTwo | kOptProfile;
inline constexpr uint32_t kMxOptions =
    kOptAlways | kOptRht | kOptSwizzled | kOptScaleRule;
inline constexpr uint32_t kBlockOptions =
    kOptAlways | kOptEpsilon | kOptPowerOfTwo;

// clang-format off
inline constexpr FormatSpec kFormats[] = {
    {.format = Format::kNvfp4, .name = "nvfp4",
     .scaling = Scaling::kNvfp4,
     .element = DType::kE2M1x2, .scale = DType::kE4M3, .block = 16,
     .options = kNvfp4Options | kOptRht | kOptEstimation | kOptRowScaled |
                kOptProfile},
    {.format = Format::kNvfp4Square, .name = "nvfp4_2d",
     .scaling = Scaling::kNvfp4,
     .element = DType::kE2M1x2, .scale = DType::kE4M3, .block = 16,
     .square = true, .options = kNvfp4Options | kOptCompact},
    {.format = Format::kFp8E4M3, .name = "fp8_e4m3",
     .scaling = Scaling::kTensor,
     .element = DType::kE4M3, .scale = DType::kF32,
     .options = kTensorOptions | kOptProfile},
    {.format = Format::kFp8E5M2, .name = "fp8_e5m2",
     .scaling = Scaling::kTensor,
     .element = DType::kE5M2, .scale = DType::kF32,
     .options = kTensorOptions},
    {.format = Format::kMxfp8E4M3, .name = "mxfp8_e4m3",
     .scaling = Scaling::kMx,
     .element = DType::kE4M3, .scale = DType::kE8M0, .block = 32,
     .transposed = false, .options = kMxOptions | kOptProfile},
    {.format = Format::kMxfp8E5M2, .name = "mxfp8_e5m2",
     .scaling = Scaling::kMx,
     .element = DType::kE5M2, .scale = DType::kE8M0, .block = 32,
     .transposed = false, .options = kMxOptions},
    {.format = Format::kMxfp4, .name = "mxfp4",
     .scaling = Scaling::kMx,
     .element = DType::kE2M1x2, .scale = DType::kE8M0, .block = 32,
     .options = kMxOptions | kOptStochastic | kOptProfile},
    {.format = Format::kFp8BlockE4M3, .name = "fp8_block_e4m3",
     .scaling = Scaling::kBlock,
     .element = DType::kE4M3, .scale = DType::kF32, .block = 128,
     .options = kBlockOptions},
    {.format = Format::kFp8BlockE5M2, .name = "fp8_block_e5m2",
     .scaling = Scaling::kBlock,
     .element = DType::kE5M2, .scale = DType::kF32, .block = 128,
     .options = kBlockOptions},
    {.format = Format::kFp8SquareE4M3, .name = "fp8_block_2d_e4m3",
     .scaling = Scaling::kBlock,
     .element = DType::kE4M3, .scale = DType::kF32, .block = 128,
     .square = true, .options = kBlockOptions | kOptProfile},
    {.format = Format::kFp8SquareE5M2, .name = "fp8_block_2d_e5m2",
     .scaling = Scaling::kBlock,
     .element = DType::kE5M2, .scale = DType::kF32, .block = 128,
     .square = true, .options = kBlockOptions},
    {.format = Format::kFp8ChannelE4M3, .name = "fp8_channel_e4m3",
     .scaling = Scaling::kChannel,
     .element = DType::kE4M3, .scale = DType::kF32,
     .options = kChannelOptions},
};
// clang-format on

// The row of `f`, or nullptr for an unknown format.
constexpr const FormatSpec* FindFormat(Format f) {
  for (const FormatSpec& row : kFormats) {
    if (row.format == f) return &row;
  }
  return nullptr;
}

// True if the format's copies have an amax in addition to their scales.
constexpr bool HasAmax(const FormatSpec& f) {
  return f.scaling == Scaling::kNvfp4 || f.scaling == Scaling::kTensor ||
         f.scaling == Scaling::kChannel;
}

// A set of copies of a tensor, as bits.
enum class Usage : int32_t {
  kUnspecified = 0,
  kRowwise = 1,     // blocks along K of the M x K matrix
  kColumnwise = 2,  // blocks along M; FormatSpec::transposed: stored as K x M
  kBoth = 3,
  kNone = 4,  // no copy, only other outputs
};
constexpr bool HasRowwise(Usage u) { return static_cast<int>(u) & 1; }
constexpr bool HasColumnwise(Usage u) { return static_cast<int>(u) & 2; }

// The treatment of NaN and Inf in an input. The reply always reports them.
enum class NonFinite : int32_t {
  kIgnore = 0,     // NaN is dropped from every maximum
  kPropagate = 1,  // NaN makes the amax and its block's scale NaN
  kReject = 2,     // NaN or Inf anywhere fails the call
};

// How a value between two codes is rounded.
enum class Rounding : int32_t {
  kNearest = 0,     // ties to even
  kStochastic = 1,  // E2M1 only; 8 random bits per element
};

// The rule for the shared exponent of an MX block.
enum class ScaleRule : int32_t {
  kUp = 0,     // ceil(log2(amax / element_max)): nothing saturates
  kFloor = 1,  // floor(log2 amax) - emax
  kCeil = 2,   // ceil(log2 amax) - emax
  kEven = 3,   // amax rounded to the element's mantissa, then kFloor
};

// Whether each NVFP4 block is quantized twice, for a maximum of 4 and for one
// of 6, and the error by which the better result is chosen.
enum class FourOverSix : int32_t {
  kOff = 0,
  kMae = 1,  // sum of absolute errors
  kMse = 2,  // sum of squared errors
};

// The elements that one amax of RhtAmax covers.
enum class AmaxDomain : int32_t {
  kTensor = 0,  // the whole tensor, or each group
  kRow = 1,     // each row of x, or each column for a columnwise maximum
};

// The entries of an amax history from which the next scale is computed.
enum class HistoryRule : int32_t {
  kMax = 0,
  kMostRecent = 1,
};

// Order of the bytes of a tensor.
enum class Layout : int32_t {
  kUnspecified = 0,
  kLinear = 1,    // row-major
  kSwizzled = 2,  // scales in 128 x 4 tiles, as tensor cores read them
};

// Role of a tensor inside a payload.
enum class TensorKind : int32_t {
  kUnspecified = 0,
  kInput = 1,               // the unquantized input, fp32, fp16 or bf16
  kRowwiseData = 2,         // codes
  kRowwiseScale = 3,        // scales, padded
  kRowwiseAmax = 4,         // fp32, the amax that the rowwise codes depend on
  kColumnwiseData = 5,      // codes
  kColumnwiseScale = 6,     // scales, padded
  kColumnwiseAmax = 7,      // fp32
  kDequantized = 8,         // M x K
  kRotated = 9,             // M x K
  kRowwiseRhtAmax = 10,     // fp32, max |bf16(RHT of the rows)|
  kColumnwiseRhtAmax = 11,  // fp32, max |bf16(RHT of the columns)|
  kAmax = 12,               // fp32, max |x|
  kDbias = 13,              // sums of the columns
  kAmaxHistory = 14,        // fp32, rolled
  kNextScale = 15,          // fp32
  // fp32. A profile's library stores one of these two in place of NVFP4's amax:
  // a value is code * scale * global scale, or code * scale / global divisor.
  kRowwiseGlobalScale = 16,
  kRowwiseGlobalDivisor = 17,
};

// Lower-case names, as on the command line and in messages: "bf16", "nvfp4".
std::string_view Name(DType t);
std::string_view Name(Format f);
std::string_view Name(Profile p);
std::string_view Name(Usage u);
std::string_view Name(NonFinite n);
std::string_view Name(Rounding r);
std::string_view Name(ScaleRule r);
std::string_view Name(FourOverSix f);
std::string_view Name(AmaxDomain d);
std::string_view Name(HistoryRule r);
std::string_view Name(Layout l);
std::string_view Name(TensorKind k);
std::optional<DType> ParseDType(std::string_view name);
std::optional<Format> ParseFormat(std::string_view name);
std::optional<Profile> ParseProfile(std::string_view name);
std::optional<Usage> ParseUsage(std::string_view name);
std::optional<NonFinite> ParseNonFinite(std::string_view name);
std::optional<Rounding> ParseRounding(std::string_view name);
std::optional<ScaleRule> ParseScaleRule(std::string_view name);
std::optional<FourOverSix> ParseFourOverSix(std::string_view name);
std::optional<AmaxDomain> ParseAmaxDomain(std::string_view name);
std::optional<HistoryRule> ParseHistoryRule(std::string_view name);
std::optional<Layout> ParseLayout(std::string_view name);

}  // namespace quantd

#endif  // QUANTD_FORMAT_H_
