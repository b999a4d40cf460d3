#include "client/quantctl/plan_kernels.h"

#include <utility>

#include "absl/status/statusor.h"
#include "fmt/format.h"
#include "kernels/cpu/choice.h"
#include "kernels/cuda/choice.h"
#include "kernels/device/recipe.h"
#include "kernels/plan/support.h"

namespace quantd::quantctl {
namespace {

// Adds a row, or the type to the last row where that is the same otherwise.
void Add(const FormatSpec& format, std::string copies, DType dtype,
         const absl::StatusOr<Plan>& plan, std::vector<KernelsRow>* rows) {
  if (!plan.ok()) return;
  Kernels kernels = KernelsOf(*plan);
  if (!rows->empty() && rows->back().format == format.name &&
      rows->back().copies == copies && rows->back().kernels == kernels) {
    rows->back().types += fmt::format(", {}", Name(dtype));
    return;
  }
  rows->push_back({std::string(format.name), std::move(copies),
                   std::string(Name(dtype)), std::move(kernels)});
}

}  // namespace

Kernels KernelsOf(const Plan& plan) {
  const Recipe recipe = MakeRecipe(plan);
  return {ToString(cuda::ChooseKernels(plan, recipe)),
          ToString(cpu::ChooseKernels(plan, recipe))};
}

std::vector<KernelsRow> KernelsTable(const QuantizeOptions& options) {
  constexpr DType kFloats[] = {DType::kBF16, DType::kF16, DType::kF32};
  std::vector<KernelsRow> rows;
  for (const FormatSpec& format : kFormats) {
    for (const Usage usage : kUsages) {
      QuantizeOptions o = options;
      o.format = format.format;
      o.usage = usage;
      o.want_amax |= usage == Usage::kNone;
      o.rht.rowwise &= HasRowwise(usage);
      o.rht.columnwise &= HasColumnwise(usage);
      for (const DType dtype : kFloats) {
        Add(format, std::string(Name(usage)), dtype,
            MakeQuantizePlan({dtype, {256, 512}}, o), &rows);
      }
    }
    for (const Usage usage : {Usage::kRowwise, Usage::kColumnwise}) {
      DequantizeOptions o;
      o.format = format.format;
      o.usage = usage;
      o.inverse_rht = usage == Usage::kRowwise ? options.rht.rowwise
                                               : options.rht.columnwise;
      o.rht_dimension = options.rht.dimension;
      o.form = options.form;
      o.splits = options.splits;
      o.profile = options.profile;
      for (const DType dtype : kFloats) {
        o.output = dtype;
        Add(format, fmt::format("decode {}", Name(usage)), dtype,
            MakeDequantizePlan({DType::kUnspecified, {256, 512}}, o), &rows);
      }
    }
  }
  return rows;
}

}  // namespace quantd::quantctl
