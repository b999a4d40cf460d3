#include "kernels/cuda/choice.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <variant>

#include "kernels/arith/four_over_six.h"
#include "kernels/arith/hadamard.h"
#include "kernels/arith/maxima.h"
#include "kernels/device/kernel_names.h"
#include "kernels/device/task.h"
#include "kernels/plan/geometry.h"
#include "kernels/plan/profile/profile.h"
#include "kernels/plan/support.h"

namespace quantd::cuda {
namespace {

// Options that the tuned kernels for bf16 and fp16 support. With other options
// the frame (encode/frame) or the generic kernel is used.
constexpr uint32_t kNvfp4Knows = kOptRht | kOptStochastic | kOptFourOverSix |
                                 kOptSwizzled | kOptCompact | kOptGivenAmax |
                                 kOptEstimation | kOptGrouped | kOptDbias;
constexpr uint32_t kFp8Knows = kOptSwizzled | kOptGivenAmax | kOptEpsilon |
                               kOptPowerOfTwo | kOptGivenScale | kOptHistory |
                               kOptScaleRule | kOptGrouped | kOptDbias;
constexpr uint32_t kFrameKnows =
    kNvfp4Knows | kFp8Knows | kOptScaleSearch | kOptRowScaled | kOptProfile;

// Options that an encoder must support. Statistics have a kernel of their own.
uint32_t OptionsToKnow(const QuantizeOptions& o) {
  return UsedOptions(o) & ~kOptStatistics;
}

// The number of columns times the number of chunks, which some kernels count in
// 32 bits.
int64_t ColumnsOfChunks(const Plan& plan) {
  int64_t chunks = 0;
  for (const Group& g : plan.groups()) chunks += CeilDiv(g.rows, kChunkRows);
  return chunks * plan.cols();
}

AmaxKernel ChooseAmax(const Plan& plan, const Recipe& r) {
  const Search& search = r.search;
  if (!search.any()) return AmaxKernel::kNone;
  if (plan.grouped() || search.lines ||
      (search.rotates() && r.rotation->dimension != kRhtSize)) {
    const auto row_bytes =
        static_cast<uint64_t>(plan.cols()) * SizeOf(plan.tensor().dtype);
    const bool lines =
        !search.rotates() && row_bytes % 16 == 0 &&
        ColumnsOfChunks(plan) < std::numeric_limits<int32_t>::max();
    return lines ? AmaxKernel::kLines : AmaxKernel::kSpans;
  }
  if (plan.tensor().dtype == DType::kBF16 && search.rotates() &&
      plan.cols() % kBlock == 0 &&
      plan.rows() <= std::numeric_limits<int32_t>::max()) {
    return AmaxKernel::kTensorCores;
  }
  return search.rotated[1]   ? AmaxKernel::kTiles
         : search.rotated[0] ? AmaxKernel::kRows
                             : AmaxKernel::kPlain;
}

// Whether every rotated copy has a rotation of dimension 16.
bool RotatesBySixteen(const Recipe& r) {
  return !r.copies_rotate() || r.rotation->dimension == kRhtSize;
}

// The kernel of the frame (kernels/cuda/encode/frame) for a plan.
EncodeKernel ChooseCell(const EncodeParams& p, bool rotates) {
  using enum EncodeKernel;
  const bool other = p.numerics.other;
  const bool picks = TriesScales(p);
  const bool searches = p.nvfp4.scale_search;
  if (p.scaling == Scaling::kNvfp4 && p.square) {
    return p.stochastic ? kFrameNvfp4StochasticSquares
           : searches   ? kFrameNvfp4ScaleSearchSquares
           : picks      ? kFrameNvfp4FourOverSixSquares
                        : kFrameNvfp4Squares;
  }
  if (p.scaling == Scaling::kNvfp4) {
    if (other) return kFrameNvfp4OfProfiles;
    if (searches) return kFrameNvfp4ScaleSearch;
    if (picks) return kFrameNvfp4FourOverSix;
    if (p.stochastic) {
      return rotates ? kFrameNvfp4StochasticRotated : kFrameNvfp4Stochastic;
    }
    return rotates ? kFrameNvfp4Rotated : kFrameNvfp4;
  }
  if (p.scaling == Scaling::kMx && p.element == DType::kE2M1x2) {
    if (other) return kFrameMxfp4OfProfiles;
    if (p.stochastic) {
      return rotates ? kFrameMxfp4StochasticRotated : kFrameMxfp4Stochastic;
    }
    return rotates ? kFrameMxfp4Rotated : kFrameMxfp4;
  }
  if (p.scaling == Scaling::kMx) {
    return other     ? kFrameMxfp8OfProfiles
           : rotates ? kFrameMxfp8Rotated
                     : kFrameMxfp8;
  }
  if (p.square) return other ? kFrameFp8SquaresOfProfiles : kFrameFp8Squares;
  if (p.scaling == Scaling::kBlock) return kFrameFp8Blocks;
  return other ? kFrameFp8LinesOfProfiles : kFrameFp8Lines;
}

// A kernel of the frame, or kSpans if the frame does not support the plan.
EncodeKernel ChooseOther(const Plan& plan, const Recipe& r,
                         const QuantizeOptions& o, SharedMemory size) {
  const DType input = plan.tensor().dtype;
  const EncodeParams params = MakeEncodeParams(plan);
  const auto row_bytes = static_cast<uint64_t>(plan.cols()) * SizeOf(input);
  const bool fits = size != SharedMemory::kSmall || input != DType::kF32 ||
                    !r.copies_rotate();
  if (!fits || (OptionsToKnow(o) & ~kFrameKnows) != 0 || row_bytes % 16 != 0 ||
      plan.rows() > std::numeric_limits<int32_t>::max() ||
      ColumnsOfChunks(plan) >= std::numeric_limits<uint32_t>::max() ||
      (o.rounding == Rounding::kStochastic && !DrawsWhole(plan, o)) ||
      (TriesScales(params) && o.form.row_scaled)) {
    return EncodeKernel::kSpans;
  }
  return ChooseCell(params, r.copies_rotate());
}

// The tuned kernel for NVFP4 of bf16 and fp16, or kNone.
EncodeKernel ChooseNvfp4(const Plan& plan, const Recipe& r,
                         const QuantizeOptions& o) {
  using enum EncodeKernel;
  const bool square = FindFormat(o.format)->square;
  const bool columnwise = r.copies[1].wanted;
  const bool te = EncodesAsTe(NumericsOf(o));
  // Tiles are rotated only by tensor cores, which take bf16.
  const bool rotatable =
      plan.tensor().dtype == DType::kBF16 || !r.copies_rotate();
  // (The checks of `te` below handle the profile.)
  uint32_t used = OptionsToKnow(o) & ~kOptProfile;
  const bool scaled = (used & kOptRowScaled) != 0 && !columnwise &&
                      (used & (kOptStochastic | kOptFourOverSix)) == 0 && te;
  if (scaled) used &= ~kOptRowScaled;
  if ((used & ~kNvfp4Knows) != 0 || plan.cols() % kBlock != 0 ||
      !RotatesBySixteen(r) || (columnwise && !rotatable) ||
      plan.rows() > std::numeric_limits<int32_t>::max() ||
      ColumnsOfChunks(plan) >= std::numeric_limits<uint32_t>::max()) {
    return kNone;
  }
  if (scaled) return kNvfp4ScaledRows;
  if (!te) return kNvfp4UnderGlobal;
  if ((used & kOptStochastic) != 0) {
    // The random bytes of a block must come from one counter.
    return !DrawsWhole(plan, o) ? kNone
           : square             ? kNvfp4StochasticSquares
           : columnwise         ? kNvfp4StochasticTiles
                                : kNvfp4Stochastic;
  }
  if ((used & kOptFourOverSix) != 0) {
    return square       ? kNvfp4FourOverSixSquares
           : columnwise ? kNvfp4FourOverSixTiles
                        : kNvfp4FourOverSix;
  }
  if (square) return kNvfp4Squares;
  return columnwise || (o.dbias && rotatable) ? kNvfp4Tiles : kNvfp4Rows;
}

// The tuned kernel for FP8 and MXFP8 of bf16 and fp16, or kNone.
EncodeKernel ChooseFp8(const Plan& plan, const Recipe& r,
                       const QuantizeOptions& o) {
  using enum EncodeKernel;
  const FormatSpec& format = *FindFormat(o.format);
  const bool tensor = format.scaling == Scaling::kTensor;
  const bool mx = format.scaling == Scaling::kMx;
  // (Under a NaN scale, profiles keep zeros as zeros. Kernels for MX do not.)
  const bool profiles = tensor || (mx && !r.propagate);
  const uint32_t used =
      OptionsToKnow(o) & ~(profiles ? uint32_t{kOptProfile} : 0);
  if ((used & ~kFp8Knows) != 0 || format.square || plan.cols() % 8 != 0 ||
      ColumnsOfChunks(plan) >= std::numeric_limits<int32_t>::max()) {
    return kNone;
  }
  if (!r.copies[1].wanted && !o.dbias) {
    if (tensor) return NumericsOf(o).other ? kFp8QuotientRuns : kFp8Runs;
    return mx ? kMxfp8Rows : kFp8BlockRows;
  }
  // Swizzled scales keep the columns of a tile together, so they need tiles.
  const bool strips = r.copies[1].wanted && !o.dbias && mx &&
                      o.form.scale_layout != Layout::kSwizzled;
  return strips   ? kMxfp8Strips
         : mx     ? kMxfp8Tiles
         : tensor ? kFp8TensorTiles
                  : kFp8BlockTiles;
}

// The tuned encoder for the plan, or kNone.
EncodeKernel ChooseMade(const Plan& plan, const Recipe& r,
                        const QuantizeOptions& o) {
  const FormatSpec& format = *FindFormat(o.format);
  if (plan.tensor().dtype == DType::kF32) {
    return r.plain_nvfp4 && !r.copies[1].wanted && !plan.grouped() &&
                   EncodesAsTe(NumericsOf(o))
               ? EncodeKernel::kQuantizeRows
               : EncodeKernel::kNone;
  }
  if (format.scaling == Scaling::kNvfp4) return ChooseNvfp4(plan, r, o);
  const bool fp8 =
      format.element != DType::kE2M1x2 && format.scaling != Scaling::kChannel;
  return fp8 ? ChooseFp8(plan, r, o) : EncodeKernel::kNone;
}

EncodeKernel ChooseEncode(const Plan& plan, const Recipe& r,
                          const QuantizeOptions& o, SharedMemory size) {
  if (!r.copies_wanted()) return EncodeKernel::kNone;
  const EncodeKernel made = ChooseMade(plan, r, o);
  return made != EncodeKernel::kNone ? made : ChooseOther(plan, r, o, size);
}

// Names and properties from the rows of kernels/cuda/kernels.h, in the order of
// the enumerators.
#define QUANTD_NAME(kernel, name) #name,
constexpr std::string_view kAmaxNames[] = {
    "-", QUANTD_AMAX_OF_TENSOR(QUANTD_NAME) QUANTD_AMAX_OF_GROUPS(QUANTD_NAME)};
constexpr std::string_view kDecodeNames[] = {"-", QUANTD_DECODERS(QUANTD_NAME)};
constexpr std::string_view kRotateNames[] = {"-", QUANTD_ROTATORS(QUANTD_NAME)};
constexpr std::string_view kErrorsNames[] = {
    "-", QUANTD_ERROR_COUNTERS(QUANTD_NAME)};
#undef QUANTD_NAME
constexpr std::string_view kDbiasNames[] = {"-", "by the encoder", "SumChunks"};

struct EncoderRow {
  std::string_view name;
  CodeTable table;
  bool sums_chunks;
};
#define QUANTD_ROW(kernel, name, table, sums) {#name, CodeTable::table, sums},
constexpr EncoderRow kEncoders[] = {{"-", CodeTable::kNone, false},
                                    QUANTD_ENCODERS(QUANTD_ROW)};
#undef QUANTD_ROW
const EncoderRow& RowOf(EncodeKernel kernel) {
  return kEncoders[static_cast<size_t>(kernel)];
}

DecodeKernel ChooseDecode(const Recipe& r, const DequantizeOptions& o) {
  const FormatSpec& format = *FindFormat(o.format);
  const bool columnwise = HasColumnwise(o.usage);
  const bool transposed = columnwise && format.transposed;
  if (o.profile != Profile::kTe || !RotatesBySixteen(r)) {
    return DecodeKernel::kSpans;
  }
  if (!r.copies_rotate()) {
    return transposed   ? DecodeKernel::kColumns
           : columnwise ? DecodeKernel::kColumnsInPlace
                        : DecodeKernel::kRows;
  }
  return transposed   ? DecodeKernel::kColumns
         : columnwise ? DecodeKernel::kRotatedInPlace
                      : DecodeKernel::kRotatedRows;
}

ErrorsKernel ChooseErrors(const Plan& plan, const Recipe& r,
                          const QuantizeOptions& o) {
  // Rows, columns and bytes of a row are counted in 32 bits.
  constexpr int64_t kMost = int64_t{1} << 28;
  const bool tiles = !r.copies_rotate() && !NumericsOf(o).other &&
                     plan.cols() % kBlock == 0 && plan.rows() < kMost &&
                     plan.cols() < kMost &&
                     ColumnsOfChunks(plan) / kChunkRows < kMost;
  return tiles ? ErrorsKernel::kTiles : ErrorsKernel::kSpans;
}

}  // namespace

bool KernelChoice::reads_groups() const {
  const bool one_tensor =
      encode == EncodeKernel::kNone || encode == EncodeKernel::kQuantizeRows;
  return searches_groups() || !one_tensor || errors != ErrorsKernel::kNone ||
         decode != DecodeKernel::kNone || dbias != DbiasKernel::kNone;
}

KernelChoice ChooseKernels(const Plan& plan, const Recipe& recipe,
                           SharedMemory size) {
  KernelChoice choice;
  choice.amax = ChooseAmax(plan, recipe);
  if (const auto* o = std::get_if<QuantizeOptions>(&plan.options())) {
    choice.encode = ChooseEncode(plan, recipe, *o, size);
    if (o->dbias) {
      choice.dbias = RowOf(choice.encode).sums_chunks ? DbiasKernel::kEncoder
                                                      : DbiasKernel::kChunks;
    }
    if (recipe.statistics && recipe.copies_wanted()) {
      choice.errors = ChooseErrors(plan, recipe, *o);
    }
  } else if (const auto* d = std::get_if<DequantizeOptions>(&plan.options())) {
    choice.decode = ChooseDecode(recipe, *d);
  } else if (recipe.rotate) {
    choice.rotate = recipe.rotation->dimension == kRhtSize
                        ? RotateKernel::kBlocks
                        : RotateKernel::kSpans;
  }
  return choice;
}

std::string_view Name(AmaxKernel kernel) {
  return kAmaxNames[static_cast<size_t>(kernel)];
}
std::string_view Name(EncodeKernel kernel) { return RowOf(kernel).name; }
std::string_view Name(DecodeKernel kernel) {
  return kDecodeNames[static_cast<size_t>(kernel)];
}
std::string_view Name(RotateKernel kernel) {
  return kRotateNames[static_cast<size_t>(kernel)];
}
std::string_view Name(DbiasKernel kernel) {
  return kDbiasNames[static_cast<size_t>(kernel)];
}
std::string_view Name(ErrorsKernel kernel) {
  return kErrorsNames[static_cast<size_t>(kernel)];
}

std::string ToString(const KernelChoice& choice) {
  std::string text;
  AddKernel("amax", Name(choice.amax), &text);
  AddKernel("encode", Name(choice.encode), &text);
  AddKernel("decode", Name(choice.decode), &text);
  AddKernel("rotate", Name(choice.rotate), &text);
  AddKernel("dbias", Name(choice.dbias), &text);
  AddKernel("statistics", Name(choice.errors), &text);
  return text;
}

CodeTable CodeTableOf(EncodeKernel kernel, DType input) {
  const CodeTable table = RowOf(kernel).table;
  return table == CodeTable::kFits && input != DType::kBF16 ? CodeTable::kValues
                                                            : table;
}

}  // namespace quantd::cuda
