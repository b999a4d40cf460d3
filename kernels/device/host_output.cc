#include "kernels/device/host_output.h"

#include <algorithm>
#include <cstring>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "kernels/plan/delayed_scaling.h"

namespace quantd {
namespace {

// Writes the start of a tensor of floats, as far as the tensor reaches.
void Put(const Plan& plan, TensorKind kind, absl::Span<const float> values,
         std::byte* out) {
  const TensorSpec& spec = *plan.output(kind);
  const size_t bytes = std::min(spec.size, values.size() * sizeof(float));
  if (bytes > 0) std::memcpy(out + spec.offset, values.data(), bytes);
}

}  // namespace

void WriteGivenAmax(const Plan& plan, const AmaxOutput& amax, std::byte* out) {
  Put(plan, amax.kind, amax.source.values(), out);
}

void WriteTensorScales(const Plan& plan, const Recipe& recipe,
                       const QuantizeTask& task) {
  const auto& o = std::get<QuantizeOptions>(plan.options());
  for (size_t g = 0; g < task.groups.size(); ++g) {
    const GroupTask& group = task.groups[g];
    for (const bool columnwise : {false, true}) {
      const CopyTask& copy = columnwise ? group.columnwise : group.rowwise;
      const TensorScale source = recipe.copies[columnwise].scale;
      if (source == TensorScale::kNone) continue;
      const float scale = source == TensorScale::kGiven
                              ? o.scale[g]
                              : Fp8Scale<Scalar>(task.params, *copy.amax);
      *copy.tensor_scale = scale;
      const float inverse = 1.0f / scale;
      std::memcpy(copy.scale, &inverse, sizeof(inverse));
    }
  }
}

void WriteHistory(const Plan& plan, const Recipe& recipe, std::byte* out) {
  if (!recipe.history) return;
  const auto& o = std::get<QuantizeOptions>(plan.options());
  std::vector<float> amaxes(plan.groups().size());
  std::memcpy(amaxes.data(), out + plan.output(TensorKind::kNextScale)->offset,
              amaxes.size() * sizeof(float));
  const GroupUpdates updates =
      UpdateScales(o.history->amax, amaxes, o.history->rule, o.history->margin,
                   LimitsOf(FindFormat(o.format)->element).max, o.scale);
  Put(plan, TensorKind::kAmaxHistory, updates.history, out);
  Put(plan, TensorKind::kNextScale, updates.scales, out);
}

void WriteEmpty(const Plan& plan, const Recipe& recipe, std::byte* out) {
  std::fill_n(out, plan.output_bytes(), std::byte{0});
  if (!std::holds_alternative<QuantizeOptions>(plan.options())) return;
  for (const AmaxOutput& amax : recipe.amaxes) {
    if (amax.from == AmaxOutput::From::kGiven) WriteGivenAmax(plan, amax, out);
  }
  std::vector<std::byte> scratch(plan.scratch_bytes());
  JobBases bases;
  bases.in = out;  // Nothing of it is read.
  bases.out = out;
  bases.scratch = scratch.data();
  WriteTensorScales(plan, recipe, MakeQuantizeTask(plan, bases));
  WriteHistory(plan, recipe, out);
}

}  // namespace quantd
