#include "kernels/device/host_output.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <variant>
#include <vector>

#include "absl/types/span.h"
#include "kernels/plan/profile/profile.h"
#include "quantd/delayed_scaling.h"

namespace quantd {
namespace {

// Writes as many of the values as the tensor holds.
void Put(const Plan& plan, TensorKind kind, absl::Span<const float> values,
         const JobBases& bases) {
  const TensorSpec& spec = *plan.output(kind);
  const size_t bytes = std::min(spec.size, values.size() * sizeof(float));
  if (bytes > 0) {
    std::memcpy(bases.Output(plan, spec), values.data(), bytes);
  }
}

}  // namespace

bool HostWrites(const Plan& plan, const Recipe& recipe) {
  if (plan.rows() == 0 || plan.cols() == 0 || recipe.history) return true;
  const auto* o = std::get_if<QuantizeOptions>(&plan.options());
  return o != nullptr && NumericsOf(*o).stored != GlobalStored::kNothing;
}

void WriteGivenAmax(const Plan& plan, const AmaxOutput& amax,
                    const JobBases& bases) {
  Put(plan, amax.kind, amax.source.values(), bases);
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
                              ? o.fp8.scale[g]
                              : TensorScaleOf(task.params, *copy.amax);
      *copy.tensor_scale = scale;
      const DType type = task.params.scale;
      const uint32_t stored =
          ScaleInType<Scalar>(type, StoredTensorScale(task.params, scale));
      std::memcpy(copy.scale, &stored, SizeOf(type));
    }
  }
}

int64_t WriteGlobalScales(const Plan& plan, const JobBases& bases) {
  const auto* o = std::get_if<QuantizeOptions>(&plan.options());
  if (o == nullptr) return 0;
  const Numerics numerics = NumericsOf(*o);
  if (numerics.stored == GlobalStored::kNothing) return 0;
  const EncodeParams params = MakeEncodeParams(plan);
  std::vector<float> values(plan.groups().size());
  std::memcpy(values.data(),
              bases.Output(plan, *plan.output(TensorKind::kRowwiseAmax)),
              values.size() * sizeof(float));
  int64_t replaced = 0;
  for (size_t g = 0; g < values.size(); ++g) {
    const float amax = values[g];
    if (std::isnan(amax)) continue;
    values[g] = GlobalScaleOf<Scalar>(params, amax);
    const bool empty = plan.groups()[g].rows == 0 || plan.cols() == 0;
    // Libraries that store a divisor write 1 for such an amax themselves.
    if (!empty && numerics.stored == GlobalStored::kMultiplier &&
        values[g] != RawGlobalScale<Scalar>(params, amax)) {
      ++replaced;
    }
  }
  Put(plan, KindOfGlobal(numerics), values, bases);
  return replaced;
}

void WriteHistory(const Plan& plan, const Recipe& recipe,
                  const JobBases& bases) {
  if (!recipe.history) return;
  const auto& o = std::get<QuantizeOptions>(plan.options());
  std::vector<float> amaxes(plan.groups().size());
  std::memcpy(amaxes.data(),
              bases.Output(plan, *plan.output(TensorKind::kNextScale)),
              amaxes.size() * sizeof(float));
  const GroupUpdates updates = UpdateScales(
      o.fp8.history->amax, amaxes, o.fp8.history->rule, o.fp8.history->margin,
      LimitsOf(FindFormat(o.format)->element).max, o.fp8.scale);
  Put(plan, TensorKind::kAmaxHistory, updates.history, bases);
  Put(plan, TensorKind::kNextScale, updates.scales, bases);
}

void WriteEmpty(const Plan& plan, const Recipe& recipe, const JobBases& bases) {
  for (const TensorSpec& spec : plan.outputs()) {
    std::fill_n(bases.Output(plan, spec), spec.size, std::byte{0});
  }
  if (!std::holds_alternative<QuantizeOptions>(plan.options())) return;
  for (const AmaxOutput& amax : recipe.amaxes) {
    if (amax.from == AmaxOutput::From::kGiven)
      WriteGivenAmax(plan, amax, bases);
  }
  std::vector<std::byte> scratch(plan.scratch_bytes());
  JobBases all = bases;
  all.scratch = scratch.data();
  WriteTensorScales(plan, recipe, MakeQuantizeTask(plan, all));
  WriteHistory(plan, recipe, bases);
  WriteGlobalScales(plan, bases);
}

}  // namespace quantd
