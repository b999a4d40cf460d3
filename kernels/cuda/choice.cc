#include "kernels/cuda/choice.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <variant>

#include "kernels/arith/hadamard.h"
#include "kernels/arith/maxima.h"
#include "kernels/device/kernel_names.h"
#include "kernels/plan/geometry.h"
#include "kernels/plan/profile/profile.h"
#include "kernels/plan/support.h"

namespace quantd::cuda {
namespace {

// What the kernels for bf16 and fp16 know beside their formats.
// Whoever asks for more is served by the generic kernel.
constexpr uint32_t kNvfp4Knows = kOptRht | kOptStochastic | kOptFourOverSix |
                                 kOptSwizzled | kOptCompact | kOptGivenAmax |
                                 kOptEstimation | kOptGrouped | kOptDbias;
constexpr uint32_t kFp8Knows = kOptSwizzled | kOptGivenAmax | kOptEpsilon |
                               kOptPowerOfTwo | kOptGivenScale | kOptHistory |
                               kOptScaleRule | kOptGrouped | kOptDbias;

// What an encoder is asked for: statistics are another kernel's.
uint32_t OptionsToKnow(const QuantizeOptions& o) {
  return UsedOptions(o) & ~kOptStatistics;
}

// The columns of all chunks of rows, which some kernels count in 32 bits.
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

// Whether the rotations of all copies, if any, are those of dimension 16.
bool RotatesBySixteen(const Recipe& r) {
  return !r.copies_rotate() || r.rotation->dimension == kRhtSize;
}

// What has no kernel of its own: the frame, or kSpans where that does not
// reach.
EncodeKernel ChooseOther(const Plan& plan, const QuantizeOptions& o) {
  const auto row_bytes =
      static_cast<uint64_t>(plan.cols()) * SizeOf(plan.tensor().dtype);
  if (row_bytes % 16 != 0 ||
      plan.rows() > std::numeric_limits<int32_t>::max() ||
      ColumnsOfChunks(plan) >= std::numeric_limits<uint32_t>::max() ||
      (o.rounding == Rounding::kStochastic && !DrawsWhole(plan, o)) ||
      (o.four_over_six != FourOverSix::kOff && o.form.row_scaled)) {
    return EncodeKernel::kSpans;
  }
  return EncodeKernel::kFrame;
}

// NVFP4 of bf16 and fp16.
EncodeKernel ChooseNvfp4(const Plan& plan, const Recipe& r,
                         const QuantizeOptions& o) {
  const FormatSpec& format = *FindFormat(o.format);
  const bool columnwise = r.copies[1].wanted;
  // Tensor cores rotate bf16, and tiles are rotated by nothing else.
  const bool rotatable =
      plan.tensor().dtype == DType::kBF16 || !r.copies_rotate();
  // (A profile's choices are looked at below.)
  uint32_t used = OptionsToKnow(o) & ~kOptProfile;
  const bool scaled = (used & kOptRowScaled) != 0 && !columnwise &&
                      (used & (kOptStochastic | kOptFourOverSix)) == 0 &&
                      EncodesAsTe(NumericsOf(o));
  if (scaled) used &= ~kOptRowScaled;
  if ((used & ~kNvfp4Knows) != 0 || plan.cols() % kBlock != 0 ||
      !RotatesBySixteen(r) || (columnwise && !rotatable) ||
      plan.rows() > std::numeric_limits<int32_t>::max() ||
      ColumnsOfChunks(plan) >= std::numeric_limits<uint32_t>::max()) {
    return ChooseOther(plan, o);
  }
  if (scaled) return EncodeKernel::kNvfp4ScaledRows;
  if (!EncodesAsTe(NumericsOf(o))) return EncodeKernel::kNvfp4UnderGlobal;
  if ((used & kOptStochastic) != 0) {
    // A block's random bytes must be those of one counter.
    if (!DrawsWhole(plan, o)) return ChooseOther(plan, o);
    return columnwise || format.square ? EncodeKernel::kNvfp4Tiles
                                       : EncodeKernel::kNvfp4Stochastic;
  }
  if (format.square) return EncodeKernel::kNvfp4Squares;
  if ((used & kOptFourOverSix) != 0 && !columnwise) {
    return EncodeKernel::kNvfp4FourOverSix;
  }
  return columnwise || (o.dbias && rotatable) ? EncodeKernel::kNvfp4Tiles
                                              : EncodeKernel::kNvfp4Rows;
}

// FP8 and MXFP8 of bf16 and fp16.
EncodeKernel ChooseFp8(const Plan& plan, const Recipe& r,
                       const QuantizeOptions& o) {
  const FormatSpec& format = *FindFormat(o.format);
  const bool runs = format.scaling == Scaling::kTensor;
  // (Under a scale that is NaN a profile's zeros stay zeros.)
  const bool profiles =
      runs || (format.scaling == Scaling::kMx && !r.propagate);
  const uint32_t used =
      OptionsToKnow(o) & ~(profiles ? uint32_t{kOptProfile} : 0);
  if ((used & ~kFp8Knows) != 0 || format.square || plan.cols() % 8 != 0 ||
      ColumnsOfChunks(plan) >= std::numeric_limits<int32_t>::max()) {
    return ChooseOther(plan, o);
  }
  if (!r.copies[1].wanted && !o.dbias) {
    return runs ? EncodeKernel::kFp8Runs : EncodeKernel::kFp8Rows;
  }
  // Swizzled scales of a tile's columns are neighbours.
  const bool strips = r.copies[1].wanted && !o.dbias &&
                      format.scaling == Scaling::kMx &&
                      o.form.scale_layout != Layout::kSwizzled;
  return strips ? EncodeKernel::kFp8Strips : EncodeKernel::kFp8Tiles;
}

EncodeKernel ChooseEncode(const Plan& plan, const Recipe& r,
                          const QuantizeOptions& o) {
  if (!r.copies_wanted()) return EncodeKernel::kNone;
  const FormatSpec& format = *FindFormat(o.format);
  if (plan.tensor().dtype == DType::kF32 && r.plain_nvfp4 &&
      !r.copies[1].wanted && !plan.grouped() && EncodesAsTe(NumericsOf(o))) {
    return EncodeKernel::kQuantizeRows;
  }
  if (plan.tensor().dtype == DType::kF32 ||
      format.scaling == Scaling::kChannel) {
    return ChooseOther(plan, o);
  }
  if (format.scaling == Scaling::kNvfp4) return ChooseNvfp4(plan, r, o);
  if (format.element != DType::kE2M1x2) return ChooseFp8(plan, r, o);
  return ChooseOther(plan, o);
}

bool SumsChunks(EncodeKernel kernel) {
  switch (kernel) {
    case EncodeKernel::kNvfp4Tiles:
    case EncodeKernel::kNvfp4Squares:
    case EncodeKernel::kFp8Tiles:
    case EncodeKernel::kFrame:
      return true;
    default:
      return false;
  }
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
  // Rows and columns are counted in 32 bits, bytes of a row, too.
  constexpr int64_t kMost = int64_t{1} << 28;
  const bool tiles = !r.copies_rotate() && !NumericsOf(o).other &&
                     plan.cols() % kBlock == 0 && plan.rows() < kMost &&
                     plan.cols() < kMost &&
                     ColumnsOfChunks(plan) / kChunkRows < kMost;
  return tiles ? ErrorsKernel::kTiles : ErrorsKernel::kSpans;
}

}  // namespace

bool KernelChoice::searches_groups() const {
  return amax == AmaxKernel::kLines || amax == AmaxKernel::kSpans;
}

bool KernelChoice::reads_groups() const {
  const bool one_tensor =
      encode == EncodeKernel::kNone || encode == EncodeKernel::kQuantizeRows;
  return searches_groups() || !one_tensor || errors != ErrorsKernel::kNone ||
         decode != DecodeKernel::kNone || dbias != DbiasKernel::kNone;
}

KernelChoice ChooseKernels(const Plan& plan, const Recipe& recipe) {
  KernelChoice choice;
  choice.amax = ChooseAmax(plan, recipe);
  if (const auto* o = std::get_if<QuantizeOptions>(&plan.options())) {
    choice.encode = ChooseEncode(plan, recipe, *o);
    if (o->dbias) {
      choice.dbias = SumsChunks(choice.encode) ? DbiasKernel::kEncoder
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
  static constexpr std::string_view kNames[] = {
      "-",           "PlainAmax",         "AmaxOfRows",
      "AmaxOfTiles", "AmaxByTensorCores", "AmaxOfLines",
      "AmaxOfSpans"};
  return NameIn(kNames, kernel);
}

std::string_view Name(EncodeKernel kernel) {
  static constexpr std::string_view kNames[] = {"-",
                                                "QuantizeRows",
                                                "EncodeNvfp4Rows",
                                                "EncodeNvfp4Tiles",
                                                "EncodeNvfp4Squares",
                                                "EncodeNvfp4ScaledRows",
                                                "EncodeNvfp4Stochastic",
                                                "EncodeNvfp4FourOverSix",
                                                "EncodeNvfp4UnderGlobal",
                                                "EncodeRuns",
                                                "EncodeRows",
                                                "EncodeTiles",
                                                "EncodeTiles (strips)",
                                                "EncodeFrame",
                                                "EncodeSpans"};
  return NameIn(kNames, kernel);
}

std::string_view Name(DecodeKernel kernel) {
  static constexpr std::string_view kNames[] = {"-",
                                                "DecodeRows",
                                                "DecodeColumnsInPlace",
                                                "DecodeRotatedRows",
                                                "DecodeRotatedInPlace",
                                                "DecodeColumns",
                                                "DecodeSpans"};
  return NameIn(kNames, kernel);
}

std::string_view Name(RotateKernel kernel) {
  static constexpr std::string_view kNames[] = {"-", "RotateBlocks",
                                                "RotateSpans"};
  return NameIn(kNames, kernel);
}

std::string_view Name(DbiasKernel kernel) {
  static constexpr std::string_view kNames[] = {"-", "by the encoder",
                                                "SumChunks"};
  return NameIn(kNames, kernel);
}

std::string_view Name(ErrorsKernel kernel) {
  static constexpr std::string_view kNames[] = {"-", "CountErrorsOfTiles",
                                                "CountErrorsOfSpans"};
  return NameIn(kNames, kernel);
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

}  // namespace quantd::cuda
