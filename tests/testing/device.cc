#include "tests/testing/device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "kernels/device/devices.h"
#include "kernels/plan/support.h"
#include "quantd/field_error.h"

namespace quantd {
namespace {

using oracle::Element;
using oracle::Policy;

NonFinite NonFiniteOf(Policy p) {
  switch (p) {
    case Policy::kPropagate:
      return NonFinite::kPropagate;
    case Policy::kReject:
      return NonFinite::kReject;
    case Policy::kIgnore:
      break;
  }
  return NonFinite::kIgnore;
}

TensorDesc Describe(DType dtype, int64_t rows, int64_t cols) {
  TensorDesc tensor;
  tensor.dtype = dtype;
  tensor.shape = {rows, cols};
  return tensor;
}

SignMask MaskOf(const oracle::Mask& mask) { return SignMask{mask.words}; }

bool IsRejection(const absl::Status& status) {
  const auto violation = GetFieldViolation(status);
  return violation && violation->field == "payload";
}

oracle::Bytes Output(const Reply& reply, const Plan& plan, TensorKind kind) {
  return TensorOf(reply, *plan.output(kind));
}

// Copies the bytes, so that the bits of a NaN are kept.
std::vector<float> Floats(const oracle::Bytes& bytes) {
  std::vector<float> v(bytes.size() / sizeof(float));
  if (!v.empty()) std::memcpy(v.data(), bytes.data(), bytes.size());
  return v;
}

oracle::Bytes BytesOf(const std::vector<float>& v) {
  oracle::Bytes bytes(v.size() * sizeof(float));
  if (!v.empty()) std::memcpy(bytes.data(), v.data(), bytes.size());
  return bytes;
}

std::optional<std::vector<int64_t>> SplitsOf(const std::vector<int64_t>& v) {
  if (v.empty()) return std::nullopt;
  return v;
}

// Whether the groups cover fewer rows than the tensor.
template <typename Spec>
bool Partial(const Spec& spec) {
  return !spec.splits.empty() &&
         std::accumulate(spec.splits.begin(), spec.splits.end(), int64_t{0}) <
             spec.rows;
}

template <typename Spec>
CopyForm FormOf(const Spec& spec) {
  CopyForm form;
  form.scale_layout = spec.swizzled ? Layout::kSwizzled : Layout::kLinear;
  form.compact_scales = spec.compact;
  form.row_scaled = spec.row_scaled;
  form.scale_256 = spec.scale_256;
  return form;
}

QuantizeOptions OptionsOf(const oracle::QuantizeSpec& spec) {
  QuantizeOptions o;
  o.format = static_cast<Format>(spec.format);
  o.usage = spec.rowwise && spec.columnwise ? Usage::kBoth
            : spec.rowwise                  ? Usage::kRowwise
            : spec.columnwise               ? Usage::kColumnwise
                                            : Usage::kNone;
  // A spec may set fields that only a rotation or random rounding uses.
  o.rht.rowwise = spec.rotate_rows && spec.rowwise;
  o.rht.columnwise = spec.rotate_columns && spec.columnwise;
  if (o.rht.rowwise || o.rht.columnwise) {
    o.rht.dimension = spec.dimension;
    o.rht.sign_mask = MaskOf(spec.mask);
  }
  o.non_finite = NonFiniteOf(spec.policy);
  o.rowwise_amax = spec.row_amax;
  o.columnwise_amax = spec.column_amax;
  o.form = FormOf(spec);
  o.rounding = spec.stochastic ? Rounding::kStochastic : Rounding::kNearest;
  if (spec.stochastic) {
    o.stochastic = {spec.seed, spec.seed_offset};
    o.shard = {spec.row_offset, spec.column_offset, spec.total_columns};
  }
  o.nvfp4.four_over_six = static_cast<FourOverSix>(spec.four_over_six);
  o.nvfp4.fast_error = spec.fast_error;
  o.nvfp4.scale_search = spec.scale_search;
  o.nvfp4.amax_estimation_scale = spec.estimation;
  o.fp8.epsilon = spec.epsilon;
  o.fp8.power_of_two = spec.power_of_two;
  o.fp8.scale = spec.scale;
  if (spec.history) {
    o.fp8.history = {spec.history->values,
                     spec.history->most_recent ? HistoryRule::kMostRecent
                                               : HistoryRule::kMax,
                     spec.history->margin};
  }
  o.profile = static_cast<Profile>(spec.profile);
  // Besides the default, only one profile has several rules, for MX copies.
  if (oracle::IsMx(spec.format) && o.usage != Usage::kNone &&
      (spec.profile == oracle::Profile::kTe ||
       spec.profile == oracle::Profile::kTorchao)) {
    o.mx.scale_rule = static_cast<ScaleRule>(spec.rule);
  }
  o.splits = SplitsOf(spec.splits);
  o.partial_splits = Partial(spec);
  o.want_amax = spec.want_amax;
  o.dbias = spec.dbias.has_value();
  if (spec.dbias) o.dbias_dtype = DTypeOf(*spec.dbias);
  o.statistics = spec.statistics;
  return o;
}

oracle::Statistics StatisticsOf(const std::optional<ErrorStatistics>& s) {
  oracle::Statistics out;
  if (!s) return out;
  out.elements = static_cast<int64_t>(s->elements);
  out.clipped = static_cast<int64_t>(s->clipped);
  out.flushed = static_cast<int64_t>(s->flushed);
  out.max_error = s->max_error;
  out.signal = s->signal;
  out.noise = s->noise;
  out.sqnr_db = s->sqnr_db();
  return out;
}

}  // namespace

void SetArithmetic(const QuantizeOptions& o, oracle::QuantizeSpec* spec) {
  spec->scale_search = o.nvfp4.scale_search;
  spec->epsilon = o.fp8.epsilon;
  spec->power_of_two = o.fp8.power_of_two;
  spec->rule =
      static_cast<oracle::ScaleRule>(o.mx.scale_rule.value_or(ScaleRule::kUp));
  EXPECT_EQ(UsedOptions(o) & ~UsedOptions(OptionsOf(*spec)), 0u)
      << "an option that is not set here";
}

DType DTypeOf(Element e) {
  switch (e) {
    case Element::kF16:
      return DType::kF16;
    case Element::kBF16:
      return DType::kBF16;
    case Element::kF32:
      break;
  }
  return DType::kF32;
}

std::string ToString(const Target& target) {
  return target.isa.empty() ? target.device : target.device + ":" + target.isa;
}

void PrintTo(const Target& target, std::ostream* out) {
  *out << ToString(target);
}

std::string Identifier(const Target& target) {
  std::string name = ToString(target);
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

std::vector<Target> Targets() {
  std::vector<Target> targets;
  for (const std::string& isa : ListCpuIsas()) targets.push_back({"cpu", isa});
  const size_t cpus = targets.size();
  for (const std::string& name : ListBackends()) {
    if (!name.starts_with("cpu")) targets.push_back({name, ""});
  }
  if (targets.size() == cpus) targets.push_back({"cuda", ""});
  return targets;
}

std::optional<Target> GpuTarget() {
  const std::vector<Target> targets = Targets();
  const auto gpu = std::find_if(targets.begin(), targets.end(),
                                [](const Target& t) { return t.isa.empty(); });
  if (gpu->device == "cuda") return std::nullopt;
  return *gpu;
}

absl::StatusOr<Device> Device::Open(const Target& target,
                                    BackendOptions options) {
  if (!target.isa.empty()) options.isa = target.isa;
  auto backend = OpenBackend(target.device, options);
  if (!backend.ok()) return backend.status();
  Device device;
  device.backend_ = *std::move(backend);
  return device;
}

absl::StatusOr<oracle::Quantized> Device::Quantize(
    const oracle::QuantizeSpec& spec, const oracle::Bytes& input) {
  auto plan = MakeQuantizePlan(
      Describe(DTypeOf(spec.element), spec.rows, spec.cols), OptionsOf(spec));
  if (!plan.ok()) return plan.status();
  auto reply = RunPlan(*backend_, *plan, {input});
  oracle::Quantized out;
  if (!reply.ok()) {
    if (!IsRejection(reply.status())) return reply.status();
    out.rejected = true;
    return out;
  }
  report_ = reply->report;
  out.saw_nan = report_.saw_nan;
  out.saw_inf = report_.saw_inf;
  const auto get = [&](TensorKind kind) {
    return plan->output(kind) ? Output(*reply, *plan, kind) : oracle::Bytes();
  };
  const auto read = [&](oracle::Copy& copy, TensorKind data, TensorKind scale,
                        TensorKind amax) {
    if (plan->output(data) == nullptr) return;
    copy.data = get(data);
    copy.scale = get(scale);
    copy.amax = Floats(get(amax));
    for (TensorKind global :
         {TensorKind::kRowwiseGlobalScale, TensorKind::kRowwiseGlobalDivisor}) {
      if (plan->output(global)) copy.global = Floats(get(global));
    }
    copy.data_offsets = plan->output(data)->group_offsets;
    copy.scale_offsets = plan->output(scale)->group_offsets;
  };
  read(out.rowwise, TensorKind::kRowwiseData, TensorKind::kRowwiseScale,
       TensorKind::kRowwiseAmax);
  read(out.columnwise, TensorKind::kColumnwiseData,
       TensorKind::kColumnwiseScale, TensorKind::kColumnwiseAmax);
  out.rowwise.stats = StatisticsOf(report_.rowwise);
  out.columnwise.stats = StatisticsOf(report_.columnwise);
  out.dbias = get(TensorKind::kDbias);
  out.plain_amax = Floats(get(TensorKind::kAmax));
  out.history = Floats(get(TensorKind::kAmaxHistory));
  out.next_scale = Floats(get(TensorKind::kNextScale));
  return out;
}

absl::StatusOr<oracle::Bytes> Device::Dequantize(
    const oracle::DequantizeSpec& spec, const oracle::Copy& copy) {
  DequantizeOptions options;
  options.format = static_cast<Format>(spec.format);
  options.profile = static_cast<Profile>(spec.profile);
  options.usage = spec.columnwise ? Usage::kColumnwise : Usage::kRowwise;
  options.output = DTypeOf(spec.output);
  if (spec.inverse) {
    options.inverse_rht = true;
    options.rht_dimension = spec.dimension;
    options.sign_mask = MaskOf(spec.mask);
  }
  if (spec.rotated) options.rotated_dimension = spec.dimension;
  options.form = FormOf(spec);
  options.splits = SplitsOf(spec.splits);
  options.partial_splits = Partial(spec);
  auto plan = MakeDequantizePlan(
      Describe(spec.profile == oracle::Profile::kTe ? DType::kUnspecified
                                                    : DTypeOf(spec.made_of),
               spec.rows, spec.cols),
      options);
  if (!plan.ok()) return plan.status();
  std::vector<oracle::Bytes> inputs = {copy.data, copy.scale};
  // FP8 tensors have an amax, but are decoded without it.
  if (plan->inputs().size() > 2) {
    const bool global = plan->inputs()[2].kind != TensorKind::kRowwiseAmax &&
                        plan->inputs()[2].kind != TensorKind::kColumnwiseAmax;
    inputs.push_back(BytesOf(global ? copy.global : copy.amax));
  }
  auto reply = RunPlan(*backend_, *plan, inputs);
  if (!reply.ok()) return reply.status();
  report_ = reply->report;
  return Output(*reply, *plan, TensorKind::kDequantized);
}

absl::StatusOr<oracle::Amaxes> Device::RhtAmax(const oracle::AmaxSpec& spec,
                                               const AmaxFlags& flags,
                                               const oracle::Bytes& input) {
  RhtAmaxOptions options;
  options.rowwise = flags.row;
  options.rowwise_rht = flags.row_rotated;
  options.columnwise = flags.column;
  options.columnwise_rht = flags.column_rotated;
  if (flags.row_rotated || flags.column_rotated) {
    options.rht_dimension = spec.dimension;
    options.sign_mask = MaskOf(spec.mask);
  }
  options.non_finite = NonFiniteOf(spec.policy);
  options.domain = spec.per_line ? AmaxDomain::kRow : AmaxDomain::kTensor;
  options.splits = SplitsOf(spec.splits);
  options.partial_splits = Partial(spec);
  auto plan = MakeRhtAmaxPlan(
      Describe(DTypeOf(spec.element), spec.rows, spec.cols), options);
  if (!plan.ok()) return plan.status();
  auto reply = RunPlan(*backend_, *plan, {input});
  oracle::Amaxes out;
  if (!reply.ok()) {
    if (!IsRejection(reply.status())) return reply.status();
    out.rejected = true;
    return out;
  }
  report_ = reply->report;
  const auto get = [&](bool wanted, TensorKind kind) {
    return wanted ? Floats(Output(*reply, *plan, kind)) : std::vector<float>();
  };
  out.row = get(flags.row, TensorKind::kRowwiseAmax);
  out.row_rotated = get(flags.row_rotated, TensorKind::kRowwiseRhtAmax);
  out.column = get(flags.column, TensorKind::kColumnwiseAmax);
  out.column_rotated =
      get(flags.column_rotated, TensorKind::kColumnwiseRhtAmax);
  return out;
}

absl::StatusOr<oracle::Bytes> Device::ApplyRht(
    Element e, std::optional<Element> output, int64_t rows, int64_t cols,
    const oracle::Mask& mask, bool inverse, const oracle::Bytes& input,
    int dimension) {
  ApplyRhtOptions options;
  options.inverse = inverse;
  options.rht_dimension = dimension;
  if (output) options.output = DTypeOf(*output);
  options.sign_mask = MaskOf(mask);
  auto plan = MakeApplyRhtPlan(Describe(DTypeOf(e), rows, cols), options);
  if (!plan.ok()) return plan.status();
  auto reply = RunPlan(*backend_, *plan, {input});
  if (!reply.ok()) return reply.status();
  report_ = reply->report;
  return Output(*reply, *plan, TensorKind::kRotated);
}

}  // namespace quantd
