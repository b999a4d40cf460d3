#include "kernels/plan/plan_builder.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "kernels/plan/amax_source.h"
#include "kernels/plan/idle_options.h"
#include "kernels/plan/plan_checks.h"
#include "kernels/plan/profile/profile.h"
#include "kernels/plan/support.h"
#include "quantd/field_error.h"

namespace quantd {
namespace {

const TensorSpec* Find(const std::vector<TensorSpec>& list, TensorKind kind) {
  for (const TensorSpec& spec : list) {
    if (spec.kind == kind) return &spec;
  }
  return nullptr;
}

}  // namespace

const TensorSpec* Plan::input(TensorKind kind) const {
  return Find(inputs_, kind);
}
const TensorSpec* Plan::output(TensorKind kind) const {
  return Find(outputs_, kind);
}

namespace {

// Checks all options that are numbers.
absl::Status CheckNumbers(const QuantizeOptions& o, PlanBuilder* plan) {
  const bool lines = HasAmaxOfLines(*FindFormat(o.format), o.form);
  const auto amaxes = [&](bool columnwise) -> size_t {
    return lines ? plan->LineShape(columnwise)[0] : plan->groups();
  };
  const std::string_view each = lines             ? "each line"
                                : plan->grouped() ? "each group"
                                                  : "the tensor";
  QUANTD_RETURN_IF_ERROR(CheckValues("given_amax.rowwise", o.rowwise_amax,
                                     amaxes(false), each, /*zero=*/true));
  QUANTD_RETURN_IF_ERROR(CheckValues("given_amax.columnwise", o.columnwise_amax,
                                     amaxes(true), each, /*zero=*/true));
  QUANTD_RETURN_IF_ERROR(CheckValues("scale", o.fp8.scale, plan->groups(), each,
                                     /*zero=*/false));
  if (Estimates(o) && !(std::isfinite(*o.nvfp4.amax_estimation_scale) &&
                        *o.nvfp4.amax_estimation_scale > 0)) {
    return FieldError("amax_estimation_scale",
                      "a finite number > 0, or 0 for no estimate",
                      fmt::to_string(*o.nvfp4.amax_estimation_scale));
  }
  if (!std::isfinite(o.fp8.epsilon) || o.fp8.epsilon < 0) {
    return FieldError("epsilon", "a finite number >= 0",
                      fmt::to_string(o.fp8.epsilon));
  }
  if (o.form.scale_256 && o.nvfp4.four_over_six == FourOverSix::kOff) {
    return FieldError("form.scale_256", "scale_256 only with four_over_six",
                      "no four_over_six");
  }
  if (o.nvfp4.fast_error && o.nvfp4.four_over_six == FourOverSix::kOff) {
    return FieldError("fast_error", "fast_error only with four_over_six",
                      "no four_over_six");
  }
  if (o.fp8.history) {
    const auto groups = static_cast<size_t>(plan->groups());
    const size_t values = o.fp8.history->amax.size();
    if (values < groups || values % groups != 0 ||
        values / groups > kMaxHistory) {
      return FieldError(
          "history.amax",
          fmt::format("1 to {} values{}", kMaxHistory,
                      plan->grouped()
                          ? fmt::format(" for each of {} groups", groups)
                          : ""),
          fmt::to_string(values));
    }
    if (o.fp8.history->margin < -127 || o.fp8.history->margin > 127) {
      return FieldError("history.margin", "-127 to 127",
                        fmt::to_string(o.fp8.history->margin));
    }
    QUANTD_RETURN_IF_ERROR(
        CheckNamed("history.rule", o.fp8.history->rule, "max or most_recent"));
  }
  const ShardPosition& p = o.shard;
  if (p.row_offset < 0 || p.row_offset > kMaxElements) {
    return FieldError("shard.row_offset", fmt::format("0 to {}", kMaxElements),
                      fmt::to_string(p.row_offset));
  }
  if (p.column_offset < 0 || p.column_offset > kMaxElements) {
    return FieldError("shard.column_offset",
                      fmt::format("0 to {}", kMaxElements),
                      fmt::to_string(p.column_offset));
  }
  const int64_t least = p.column_offset + plan->cols();
  if (p.total_columns != 0 &&
      (p.total_columns < least || p.total_columns > kMaxElements)) {
    return FieldError(
        "shard.total_columns",
        fmt::format("{} (column_offset + K) to {}", least, kMaxElements),
        fmt::to_string(p.total_columns));
  }
  return absl::OkStatus();
}

absl::Status CheckChoices(const QuantizeOptions& o) {
  QUANTD_RETURN_IF_ERROR(CheckUsage(o.usage, /*one=*/false));
  QUANTD_RETURN_IF_ERROR(CheckNonFinite(o.non_finite));
  QUANTD_RETURN_IF_ERROR(
      CheckNamed("rounding", o.rounding, "nearest or stochastic"));
  if (o.mx.scale_rule) {
    QUANTD_RETURN_IF_ERROR(
        CheckNamed("scale_rule", *o.mx.scale_rule, "up, floor, ceil or even"));
  }
  QUANTD_RETURN_IF_ERROR(
      CheckNamed("four_over_six", o.nvfp4.four_over_six, "off, mae or mse"));
  QUANTD_RETURN_IF_ERROR(CheckNamed("form.scale_layout", o.form.scale_layout,
                                    "linear or swizzled"));
  if (o.usage == Usage::kNone && !o.dbias && !o.want_amax) {
    return FieldError("usage", "a copy, dbias or amax",
                      "usage none without dbias and amax");
  }
  return absl::OkStatus();
}

// Checks K for a rowwise copy.
absl::Status CheckRowwise(const PlanBuilder& plan, const FormatSpec& format,
                          int rotation) {
  // In formats with half-byte codes and in MX, lines cannot end inside a block.
  if (format.scaling == Scaling::kNvfp4 || format.scaling == Scaling::kMx) {
    QUANTD_RETURN_IF_ERROR(CheckColumns(
        plan.cols(), format.block, fmt::format("rowwise {}", format.name)));
  }
  if (rotation == 0) return absl::OkStatus();
  return CheckColumns(plan.cols(), rotation, "the rowwise rotation");
}

void SettleMask(bool rotates, int dimension, std::optional<SignMask>* mask) {
  if (rotates && !*mask) *mask = DefaultSignMask(dimension);
}

// Fills in defaults. The options must be legal, and the result is legal.
QuantizeOptions Normalise(const QuantizeOptions& options,
                          const FormatSpec& format, const PlanBuilder& plan,
                          DType input) {
  QuantizeOptions used = options;
  SettleMask(used.rht.rowwise || used.rht.columnwise, used.rht.dimension,
             &used.rht.sign_mask);
  if (format.options & kOptPowerOfTwo && used.profile == Profile::kTe &&
      !used.fp8.power_of_two && used.fp8.scale.empty() &&
      used.usage != Usage::kNone) {
    used.fp8.power_of_two = format.scaling == Scaling::kBlock;
  }
  if (format.options & kOptScaleRule && !used.mx.scale_rule &&
      used.usage != Usage::kNone && FindProfile(used.profile)->scale_rule) {
    used.mx.scale_rule =
        used.profile == Profile::kTe ? ScaleRule::kUp : ScaleRule::kFloor;
  }
  if (used.dbias && used.dbias_dtype == DType::kUnspecified) {
    used.dbias_dtype = input;
  }
  if (used.rounding == Rounding::kStochastic && used.shard.total_columns == 0) {
    used.shard.total_columns = used.shard.column_offset + plan.cols();
  }
  return used;
}

// Refuses to decode a copy that no Quantize can make.
absl::Status CheckMade(const FormatSpec& format,
                       const DequantizeOptions& options) {
  QuantizeOptions made;
  made.usage = options.usage;
  made.rht.rowwise = made.rht.columnwise =
      options.inverse_rht || options.rotated_dimension != 0;
  made.form = options.form;
  made.profile = options.profile;
  if (options.form.scale_256) made.nvfp4.four_over_six = FourOverSix::kMae;
  const absl::Status status = CheckSupport(format, made);
  const std::optional<FieldViolation> v = GetFieldViolation(status);
  if (!v) return status;
  // scale_256 is the only field of DequantizeOptions that implies 4over6.
  if (v->field == "four_over_six") {
    return FieldError("form.scale_256", v->expected, v->got);
  }
  if (v->field == "rht" && !options.inverse_rht) {
    return FieldError("rotated_dimension", v->expected, v->got);
  }
  return status;
}

// Checks the rotation options of the copy to decode.
absl::Status CheckRotation(const DequantizeOptions& o) {
  if (o.rotated_dimension != 0) {
    if (o.inverse_rht) {
      return FieldError("rotated_dimension", "inverse_rht or rotated_dimension",
                        "both");
    }
    if (!CheckRht(o.rotated_dimension, {}).ok()) {
      return FieldError("rotated_dimension", "16, 32, 64 or 128",
                        fmt::to_string(o.rotated_dimension));
    }
  }
  QUANTD_RETURN_IF_ERROR(CheckRht(o.rht_dimension, o.sign_mask));
  if (o.inverse_rht) return absl::OkStatus();
  return CheckNoRotation(o.rht_dimension, o.sign_mask, "an inverse rotation");
}

}  // namespace

absl::StatusOr<Plan> MakeQuantizePlan(const TensorDesc& tensor,
                                      const QuantizeOptions& options) {
  PlanBuilder plan;
  QUANTD_RETURN_IF_ERROR(CheckFormat(options.format));
  QUANTD_RETURN_IF_ERROR(CheckFloat("tensor.dtype", tensor.dtype));
  QUANTD_RETURN_IF_ERROR(plan.SetTensor(tensor));
  QUANTD_RETURN_IF_ERROR(CheckChoices(options));
  QuantizeOptions used = options;
  QUANTD_RETURN_IF_ERROR(CheckRht(used.rht.dimension, used.rht.sign_mask));
  QUANTD_RETURN_IF_ERROR(CheckSupport(*FindFormat(used.format), used));
  QUANTD_RETURN_IF_ERROR(CheckProfile(used, tensor.dtype));
  const FormatSpec format =
      FormatUnder(used.profile, used.format, tensor.dtype);
  QUANTD_RETURN_IF_ERROR(plan.SetGroups(used.splits, used.partial_splits));
  QUANTD_RETURN_IF_ERROR(CheckNumbers(used, &plan));
  QUANTD_RETURN_IF_ERROR(CheckIdleOptions(used, plan.cols()));
  if (used.dbias && used.dbias_dtype != DType::kUnspecified) {
    QUANTD_RETURN_IF_ERROR(CheckFloat("dbias_dtype", used.dbias_dtype));
  }
  if (HasRowwise(used.usage)) {
    QUANTD_RETURN_IF_ERROR(
        CheckRowwise(plan, format, used.rht.rowwise ? used.rht.dimension : 0));
  }
  used = Normalise(used, format, plan, tensor.dtype);

  plan.Input();
  for (bool columnwise : {false, true}) {
    const bool wanted =
        columnwise ? HasColumnwise(used.usage) : HasRowwise(used.usage);
    const bool rotated = columnwise ? used.rht.columnwise : used.rht.rowwise;
    if (!wanted) continue;
    plan.Copy(format, columnwise, /*input=*/false,
              rotated ? used.rht.dimension : 0, used.form);
  }
  // kernels/device/task.cc keeps two scales per group in this scratch memory.
  if (format.scaling == Scaling::kTensor) {
    plan.GroupScratch(2 * sizeof(float));
  }
  if (used.want_amax) plan.PerGroup(TensorKind::kAmax);
  if (used.dbias) {
    plan.Output(TensorKind::kDbias, used.dbias_dtype,
                plan.grouped()
                    ? std::vector<int64_t>{plan.groups(), plan.cols()}
                    : std::vector<int64_t>{plan.cols()});
    plan.DbiasScratch();
  }
  if (used.fp8.history) {
    const auto values =
        static_cast<int64_t>(used.fp8.history->amax.size()) / plan.groups();
    plan.Output(TensorKind::kAmaxHistory, DType::kF32,
                plan.grouped() ? std::vector<int64_t>{plan.groups(), values}
                               : std::vector<int64_t>{values});
    plan.PerGroup(TensorKind::kNextScale);
  }
  const TensorKind global = KindOfGlobal(NumericsOf(used));
  if (global != TensorKind::kUnspecified) plan.PerGroup(global);
  return plan.Take(used);
}

absl::StatusOr<Plan> MakeDequantizePlan(const TensorDesc& tensor,
                                        const DequantizeOptions& options) {
  PlanBuilder plan;
  QUANTD_RETURN_IF_ERROR(CheckFormat(options.format));
  QUANTD_RETURN_IF_ERROR(plan.SetTensor(tensor));
  QUANTD_RETURN_IF_ERROR(CheckUsage(options.usage, /*one=*/true));
  QUANTD_RETURN_IF_ERROR(CheckFloat("output", options.output));
  QUANTD_RETURN_IF_ERROR(CheckNamed(
      "form.scale_layout", options.form.scale_layout, "linear or swizzled"));
  QUANTD_RETURN_IF_ERROR(CheckRotation(options));
  DequantizeOptions used = options;
  SettleMask(used.inverse_rht, used.rht_dimension, &used.sign_mask);
  QUANTD_RETURN_IF_ERROR(CheckMade(*FindFormat(used.format), used));
  QUANTD_RETURN_IF_ERROR(CheckProfile(used, tensor.dtype));
  const FormatSpec format =
      FormatUnder(options.profile, options.format, tensor.dtype);
  const bool columnwise = HasColumnwise(options.usage);
  const int rotation = used.inverse_rht ? used.rht_dimension : 0;
  QUANTD_RETURN_IF_ERROR(plan.SetGroups(used.splits, used.partial_splits));
  if (!columnwise) {
    QUANTD_RETURN_IF_ERROR(
        CheckRowwise(plan, format, std::max(rotation, used.rotated_dimension)));
  } else if (used.rotated_dimension != 0) {
    // The codes are those of a matrix to which rows of padding were added.
    plan.PadRows(std::max(format.block, used.rotated_dimension));
  }
  plan.Copy(format, columnwise, /*input=*/true, rotation, used.form,
            *FindNumerics(used.profile, used.format));
  plan.RowOutput(TensorKind::kDequantized, options.output,
                 {plan.rows(), plan.cols()});
  return plan.Take(used);
}

absl::StatusOr<Plan> MakeRhtAmaxPlan(const TensorDesc& tensor,
                                     const RhtAmaxOptions& options) {
  PlanBuilder plan;
  QUANTD_RETURN_IF_ERROR(CheckFloat("tensor.dtype", tensor.dtype));
  QUANTD_RETURN_IF_ERROR(plan.SetTensor(tensor));
  QUANTD_RETURN_IF_ERROR(CheckRht(options.rht_dimension, options.sign_mask));
  QUANTD_RETURN_IF_ERROR(CheckNonFinite(options.non_finite));
  QUANTD_RETURN_IF_ERROR(CheckNamed("domain", options.domain, "tensor or row"));
  QUANTD_RETURN_IF_ERROR(
      plan.SetGroups(options.splits, options.partial_splits));
  if (!options.rowwise && !options.rowwise_rht && !options.columnwise &&
      !options.columnwise_rht) {
    return FieldError("rowwise, rowwise_rht, columnwise, columnwise_rht",
                      "at least one of them", "none");
  }
  const bool rotates = options.rowwise_rht || options.columnwise_rht;
  if (!rotates) {
    QUANTD_RETURN_IF_ERROR(
        CheckNoRotation(options.rht_dimension, options.sign_mask,
                        "rht only with rowwise_rht or columnwise_rht"));
  }
  RhtAmaxOptions used = options;
  SettleMask(rotates, used.rht_dimension, &used.sign_mask);
  if (options.rowwise_rht) {
    QUANTD_RETURN_IF_ERROR(CheckColumns(plan.cols(), options.rht_dimension,
                                        "the rowwise rotation"));
  }
  plan.Input();
  const auto add = [&](bool wanted, TensorKind kind, bool columnwise) {
    if (!wanted) return;
    if (options.domain == AmaxDomain::kRow) {
      plan.PerLine(kind, columnwise);
    } else {
      plan.PerGroup(kind);
    }
  };
  add(options.rowwise, TensorKind::kRowwiseAmax, false);
  add(options.columnwise, TensorKind::kColumnwiseAmax, true);
  add(options.rowwise_rht, TensorKind::kRowwiseRhtAmax, false);
  add(options.columnwise_rht, TensorKind::kColumnwiseRhtAmax, true);
  return plan.Take(used);
}

absl::StatusOr<Plan> MakeApplyRhtPlan(const TensorDesc& tensor,
                                      const ApplyRhtOptions& options) {
  PlanBuilder plan;
  QUANTD_RETURN_IF_ERROR(CheckFloat("tensor.dtype", tensor.dtype));
  QUANTD_RETURN_IF_ERROR(plan.SetTensor(tensor));
  QUANTD_RETURN_IF_ERROR(plan.SetGroups({}, false));
  QUANTD_RETURN_IF_ERROR(CheckRht(options.rht_dimension, options.sign_mask));
  ApplyRhtOptions used = options;
  SettleMask(true, used.rht_dimension, &used.sign_mask);
  if (used.output == DType::kUnspecified) used.output = tensor.dtype;
  QUANTD_RETURN_IF_ERROR(CheckFloat("output", used.output));
  QUANTD_RETURN_IF_ERROR(
      CheckColumns(plan.cols(), options.rht_dimension, "the rotation"));
  plan.Input();
  plan.Output(TensorKind::kRotated, used.output, {plan.rows(), plan.cols()});
  return plan.Take(used);
}

}  // namespace quantd
