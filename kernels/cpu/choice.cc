#include "kernels/cpu/choice.h"

#include <cstddef>
#include <variant>

#include "kernels/arith/hadamard.h"
#include "kernels/device/kernel_names.h"
#include "kernels/plan/support.h"

namespace quantd::cpu {
namespace {

// The options that the tuned functions for FP8 support. With kOptRht they make
// only copies that are not rotated. The generic function is used for rotated
// copies and for all other options.
constexpr uint32_t kFp8Supports =
    kOptRht | kOptSwizzled | kOptGivenAmax | kOptEpsilon | kOptPowerOfTwo |
    kOptGivenScale | kOptHistory | kOptScaleRule | kOptGrouped | kOptDbias;

// The options that the functions for NVFP4 support. Copies may be rotated in
// blocks of 16.
constexpr uint32_t kNvfp4Supports =
    kOptRht | kOptStochastic | kOptFourOverSix | kOptScaleSearch |
    kOptSwizzled | kOptGivenAmax | kOptEstimation | kOptGrouped | kOptDbias |
    kOptProfile | kOptCompact;

bool IsNvfp4(const Plan& plan, const QuantizeOptions& o, const Recipe& r) {
  const uint32_t used = UsedOptions(o);
  const bool nvfp4 =
      o.format == Format::kNvfp4 || o.format == Format::kNvfp4Square;
  return nvfp4 && (used & ~kNvfp4Supports) == 0 &&
         (!r.copies_rotate() || r.rotation->dimension == kRhtSize) &&
         ((used & kOptStochastic) == 0 || DrawsWhole(plan, o));
}

AmaxKernel ChooseAmax(const Recipe& r) {
  const Search& search = r.search;
  if (!search.any()) return AmaxKernel::kNone;
  const bool other = search.rotates() && r.rotation->dimension != kRhtSize;
  return other || search.lines ? AmaxKernel::kLines : AmaxKernel::kTiles;
}

EncodeKernel ChooseEncode(const Plan& plan, const QuantizeOptions& o,
                          const Recipe& r, bool columnwise) {
  const CopyRecipe& copy = r.copies[columnwise];
  if (!copy.wanted) return EncodeKernel::kNone;
  const FormatSpec& format = *FindFormat(o.format);
  if (IsNvfp4(plan, o, r)) {
    return format.square ? EncodeKernel::kNvfp4Squares : EncodeKernel::kNvfp4;
  }
  const bool fp8 =
      format.element != DType::kE2M1x2 && format.scaling != Scaling::kChannel;
  if (!fp8 || copy.rotation != 0 || (UsedOptions(o) & ~kFp8Supports) != 0) {
    return EncodeKernel::kLines;
  }
  if (format.square) return EncodeKernel::kFp8Squares;
  return columnwise ? EncodeKernel::kFp8Columns : EncodeKernel::kFp8Rows;
}

DecodeKernel ChooseDecode(const Recipe& r) {
  if (!r.plain_nvfp4) return DecodeKernel::kLines;
  return r.copies[1].wanted ? DecodeKernel::kNvfp4Columns
                            : DecodeKernel::kNvfp4Rows;
}

}  // namespace

KernelChoice ChooseKernels(const Plan& plan, const Recipe& recipe) {
  KernelChoice choice;
  choice.amax = ChooseAmax(recipe);
  if (const auto* o = std::get_if<QuantizeOptions>(&plan.options())) {
    choice.encode = {ChooseEncode(plan, *o, recipe, false),
                     ChooseEncode(plan, *o, recipe, true)};
    choice.dbias = o->dbias;
  } else if (std::holds_alternative<DequantizeOptions>(plan.options())) {
    choice.decode = ChooseDecode(recipe);
  } else if (recipe.rotate) {
    choice.rotate = recipe.rotation->dimension == kRhtSize
                        ? RotateKernel::kBlocks
                        : RotateKernel::kLines;
  }
  return choice;
}

std::string_view Name(EncodeKernel kernel) {
  static constexpr std::string_view kNames[] = {"-",
                                                "QuantizeNvfp4",
                                                "QuantizeNvfp4Squares",
                                                "QuantizeFp8Rows",
                                                "QuantizeFp8Columns",
                                                "QuantizeFp8Squares",
                                                "QuantizeLines"};
  return kNames[static_cast<size_t>(kernel)];
}

std::string ToString(const KernelChoice& choice) {
  std::string text;
  AddKernel("amax", Name(choice.amax), &text);
  AddKernel("encode rows", Name(choice.encode.rowwise), &text);
  AddKernel("encode columns", Name(choice.encode.columnwise), &text);
  AddKernel("decode", Name(choice.decode), &text);
  AddKernel("rotate", Name(choice.rotate), &text);
  if (choice.dbias) AddKernel("dbias", "SumChunk", &text);
  return text;
}

}  // namespace quantd::cpu
