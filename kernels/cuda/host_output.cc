#include "kernels/cuda/host_output.h"

#include <algorithm>
#include <cstring>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "kernels/device/task.h"
#include "kernels/plan/amax_source.h"
#include "kernels/plan/delayed_scaling.h"

namespace quantd::cuda {
namespace {

// The start of a tensor of floats, if the plan has values for it.
void Put(const Plan& plan, TensorKind kind, absl::Span<const float> values,
         std::byte* out) {
  const TensorSpec* spec = plan.output(kind);
  if (spec == nullptr || values.empty()) return;
  std::memcpy(out + spec->offset, values.data(),
              std::min(spec->size, values.size() * sizeof(float)));
}

// Scales of FP8 tensors.
void PutTensorScales(const Plan& plan, const QuantizeOptions& o,
                     std::byte* out) {
  std::vector<std::byte> scratch(plan.scratch_bytes());
  JobBases bases;
  bases.in = out;  // nothing is there to be read
  bases.out = out;
  bases.scratch = scratch.data();
  const QuantizeTask task = MakeQuantizeTask(plan, bases);
  for (size_t g = 0; g < task.groups.size(); ++g) {
    for (const CopyTask* copy :
         {&task.groups[g].rowwise, &task.groups[g].columnwise}) {
      if (copy->data == nullptr) continue;
      const float scale = o.scale.empty()
                              ? Fp8Scale<Scalar>(task.params, *copy->amax)
                              : o.scale[g];
      const float inverse = 1.0f / scale;
      std::memcpy(copy->scale, &inverse, sizeof(inverse));
    }
  }
}

}  // namespace

void WriteEmpty(const Plan& plan, std::byte* out) {
  std::fill_n(out, plan.output_bytes(), std::byte{0});
  const auto* o = std::get_if<QuantizeOptions>(&plan.options());
  if (o == nullptr) return;
  Put(plan, TensorKind::kRowwiseAmax, SourceOfAmax(*o, false).values(), out);
  Put(plan, TensorKind::kColumnwiseAmax, SourceOfAmax(*o, true).values(), out);
  if (FindFormat(o->format)->scaling == Scaling::kTensor) {
    PutTensorScales(plan, *o, out);
  }
  WriteHistory(plan, out);
}

void WriteHistory(const Plan& plan, std::byte* out) {
  const auto* o = std::get_if<QuantizeOptions>(&plan.options());
  if (o == nullptr || !o->history) return;
  std::vector<float> amaxes(plan.groups().size());
  std::memcpy(amaxes.data(), out + plan.output(TensorKind::kNextScale)->offset,
              amaxes.size() * sizeof(float));
  const GroupUpdates updates = UpdateScales(
      o->history->amax, amaxes, o->history->rule, o->history->margin,
      LimitsOf(FindFormat(o->format)->element).max, o->scale);
  Put(plan, TensorKind::kAmaxHistory, updates.history, out);
  Put(plan, TensorKind::kNextScale, updates.scales, out);
}

}  // namespace quantd::cuda
