#include "kernels/device/task.h"

#include <limits>

#include "kernels/arith/nvfp4.h"
#include "kernels/plan/profile/profile.h"

namespace quantd {
namespace {

// The byte offset of a group in its tensor.
size_t OffsetIn(const TensorSpec& spec, size_t group) {
  return spec.group_offsets.empty() ? 0 : spec.group_offsets[group];
}

// Adds one copy of every group. `find` returns the copy's specs, and `place`
// their addresses.
template <typename Find, typename Place>
void AddCopies(const Plan& plan, const FormatSpec& f, bool columnwise,
               int rotation, const CopyForm& form, const float* signs,
               Find find, Place place, std::vector<GroupTask>* groups) {
  const TensorSpec* data =
      find(columnwise ? TensorKind::kColumnwiseData : TensorKind::kRowwiseData);
  if (data == nullptr) return;
  const TensorSpec& scale = *find(columnwise ? TensorKind::kColumnwiseScale
                                             : TensorKind::kRowwiseScale);
  const TensorSpec* amax =
      find(columnwise ? TensorKind::kColumnwiseAmax : TensorKind::kRowwiseAmax);
  // Under a profile, the tensor that replaces the amax.
  for (const TensorKind kind :
       {TensorKind::kRowwiseGlobalScale, TensorKind::kRowwiseGlobalDivisor}) {
    if (amax == nullptr) amax = find(kind);
  }
  for (size_t g = 0; g < groups->size(); ++g) {
    GroupTask& group = (*groups)[g];
    CopyTask& copy = columnwise ? group.columnwise : group.rowwise;
    static_cast<CopyAddress&>(copy) =
        MakeCopyGeometry(f, columnwise, group.rows, plan.cols(), rotation,
                         form.scale_layout, form.compact_scales);
    copy.data = place(*data) + OffsetIn(*data, g);
    copy.scale = place(scale) + OffsetIn(scale, g);
    copy.rotation = rotation;
    copy.signs = rotation > 0 ? signs : nullptr;
    if (amax == nullptr) continue;
    copy.amax = reinterpret_cast<float*>(place(*amax));
    if (HasAmaxOfLines(f, form)) {
      copy.amax_line = 1;
      copy.amax +=
          columnwise ? static_cast<int64_t>(g) * plan.cols() : group.row;
    } else {
      copy.amax += g;
    }
  }
}

std::vector<GroupTask> MakeGroups(const Plan& plan, const std::byte* x,
                                  DType dtype) {
  std::vector<GroupTask> groups(plan.groups().size());
  for (size_t g = 0; g < groups.size(); ++g) {
    groups[g].row = plan.groups()[g].row;
    groups[g].rows = plan.groups()[g].rows;
    groups[g].x =
        x + static_cast<size_t>(groups[g].row * plan.cols()) * SizeOf(dtype);
  }
  return groups;
}

}  // namespace

const std::byte* JobBases::Input(const Plan& plan,
                                 const TensorSpec& spec) const {
  if (lent == nullptr || lent->inputs.empty()) return in + spec.offset;
  return lent->inputs[static_cast<size_t>(&spec - plan.inputs().data())].data();
}

std::byte* JobBases::Output(const Plan& plan, const TensorSpec& spec) const {
  if (lent == nullptr || lent->outputs.empty()) return out + spec.offset;
  const auto at = static_cast<size_t>(&spec - plan.outputs().data());
  return lent->outputs[at].data();
}

std::byte* JobBases::OutputAt(const Plan& plan, size_t offset) const {
  const TensorSpec* found = &plan.outputs().front();
  for (const TensorSpec& spec : plan.outputs()) {
    if (spec.offset <= offset) found = &spec;
  }
  return Output(plan, *found) + (offset - found->offset);
}

EncodeParams MakeEncodeParams(const Plan& plan) {
  const auto& o = std::get<QuantizeOptions>(plan.options());
  const FormatSpec f = FormatUnder(o.profile, o.format, plan.tensor().dtype);
  const ElementLimits& limits = LimitsOf(f.element);
  const DType input = plan.tensor().dtype;
  EncodeParams p = {};
  p.scaling = f.scaling;
  p.element = f.element;
  p.input = input;
  p.scale = f.scale;
  p.block = f.block;
  p.square = f.square;
  p.propagate = o.non_finite == NonFinite::kPropagate;
  p.clip = Scalar::Bits(limits.clip);
  p.cols = plan.cols();
  p.range = Nvfp4Range(o.form.scale_256);
  p.nvfp4 = o.nvfp4;
  if (p.nvfp4.scale_search) p.nvfp4.four_over_six = FourOverSix::kMse;
  p.stochastic = o.rounding == Rounding::kStochastic;
  p.seed = o.stochastic.seed;
  p.subsequence = 2 * o.stochastic.seed_offset;
  p.row_offset = o.shard.row_offset;
  p.column_offset = o.shard.column_offset;
  p.total_columns = o.shard.total_columns;
  p.element_max = limits.max;
  p.epsilon = o.fp8.epsilon;
  p.power_of_two = o.fp8.power_of_two.value_or(false);
  // An infinite scale becomes the largest number of fp32, or for a block that
  // of the input's type.
  p.scale_limit = std::numeric_limits<float>::max();
  if (f.scaling == Scaling::kBlock && input == DType::kF16) {
    p.scale_limit = 65504.0f;
  } else if (f.scaling == Scaling::kBlock && input == DType::kBF16) {
    p.scale_limit = Scalar::Float(0x7F7F0000u);
  }
  p.rule = o.mx.scale_rule.value_or(ScaleRule::kUp);
  p.inverse_max = 1.0f / limits.max;
  p.emax = limits.emax;
  p.mantissa = limits.mantissa;
  p.numerics = NumericsOf(o);
  return p;
}

QuantizeTask MakeQuantizeTask(const Plan& plan, const JobBases& bases) {
  const auto& o = std::get<QuantizeOptions>(plan.options());
  const FormatSpec f = FormatUnder(o.profile, o.format, plan.tensor().dtype);
  QuantizeTask task;
  task.params = MakeEncodeParams(plan);
  task.groups = MakeGroups(plan, bases.Input(plan, plan.inputs()[0]),
                           plan.tensor().dtype);
  const auto find = [&](TensorKind kind) { return plan.output(kind); };
  const auto place = [&](const TensorSpec& spec) {
    return bases.Output(plan, spec);
  };
  AddCopies(plan, f, false, o.rht.rowwise ? o.rht.dimension : 0, o.form,
            bases.signs, find, place, &task.groups);
  AddCopies(plan, f, true, o.rht.columnwise ? o.rht.dimension : 0, o.form,
            bases.signs, find, place, &task.groups);
  const TensorSpec* amax = plan.output(TensorKind::kAmax);
  const TensorSpec* dbias = plan.output(TensorKind::kDbias);
  auto* scratch = reinterpret_cast<float*>(bases.scratch);
  for (size_t g = 0; g < task.groups.size(); ++g) {
    GroupTask& group = task.groups[g];
    if (f.scaling == Scaling::kTensor) {
      group.rowwise.tensor_scale = scratch++;
      group.columnwise.tensor_scale = scratch++;
    }
    if (amax != nullptr) {
      group.amax = reinterpret_cast<float*>(place(*amax)) + g;
    }
    if (dbias == nullptr) continue;
    group.partial = scratch;
    scratch += CeilDiv(group.rows, kChunkRows) * plan.cols();
    group.dbias = place(*dbias) +
                  g * static_cast<size_t>(plan.cols()) * SizeOf(dbias->dtype);
  }
  return task;
}

DequantizeTask MakeDequantizeTask(const Plan& plan, const JobBases& bases) {
  const auto& o = std::get<DequantizeOptions>(plan.options());
  const FormatSpec f = FormatUnder(o.profile, o.format, plan.tensor().dtype);
  const TensorSpec& out = *plan.output(TensorKind::kDequantized);
  DequantizeTask task;
  task.params = {f.scaling,
                 f.element,
                 f.scale,
                 o.output,
                 f.block,
                 Nvfp4Range(o.form.scale_256),
                 plan.cols(),
                 HasColumnwise(o.usage),
                 *FindNumerics(o.profile, o.format)};
  task.groups = MakeGroups(plan, bases.Output(plan, out), o.output);
  AddCopies(
      plan, f, task.params.columnwise, o.inverse_rht ? o.rht_dimension : 0,
      o.form, bases.signs, [&](TensorKind kind) { return plan.input(kind); },
      // A copy to decode is only read.
      [&](const TensorSpec& spec) {
        return const_cast<std::byte*>(bases.Input(plan, spec));
      },
      &task.groups);
  return task;
}

std::vector<ZeroRun> GapsOf(const Plan& plan) {
  std::vector<ZeroRun> runs;
  size_t end = 0;
  for (const TensorSpec& spec : plan.outputs()) {
    if (spec.offset > end) runs.push_back({end, 0, spec.offset - end, 1});
    end = spec.offset + spec.size;
  }
  return runs;
}

std::vector<ZeroRun> PaddingOf(const Plan& plan) {
  std::vector<ZeroRun> runs;
  const auto* o = std::get_if<QuantizeOptions>(&plan.options());
  if (o == nullptr) return runs;
  const FormatSpec f = FormatUnder(o->profile, o->format, plan.tensor().dtype);
  for (bool columnwise : {false, true}) {
    const TensorSpec* spec = plan.output(
        columnwise ? TensorKind::kColumnwiseScale : TensorKind::kRowwiseScale);
    if (spec == nullptr) continue;
    const bool rotated = columnwise ? o->rht.columnwise : o->rht.rowwise;
    for (size_t g = 0; g < plan.groups().size(); ++g) {
      const CopyGeometry geometry =
          MakeCopyGeometry(f, columnwise, plan.groups()[g].rows, plan.cols(),
                           rotated ? o->rht.dimension : 0, o->form.scale_layout,
                           o->form.compact_scales);
      for (ZeroRun run : ScalePadding(f, geometry)) {
        run.offset += spec->offset + OffsetIn(*spec, g);
        runs.push_back(run);
      }
    }
  }
  return runs;
}

}  // namespace quantd
