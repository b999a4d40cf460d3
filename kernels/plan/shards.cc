#include "kernels/plan/shards.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <variant>

#include "fmt/format.h"
#include "kernels/plan/amax_source.h"
#include "quantd/field_error.h"
#include "quantd/format.h"

namespace quantd {

CutUnits CutUnitsOf(const QuantizeOptions& options) {
  const FormatSpec& format = *FindFormat(options.format);
  const int64_t block = std::max(1, format.block);
  const auto unit = [&](bool rotated) {
    return std::max<int64_t>(block, rotated ? options.rht.dimension : 0);
  };
  CutUnits units;
  if (format.square) units = {block, block};
  if (HasColumnwise(options.usage)) units.rows = unit(options.rht.columnwise);
  if (HasRowwise(options.usage)) units.cols = unit(options.rht.rowwise);
  return units;
}

absl::Status CheckShardCut(const QuantizeOptions& options, int64_t rows,
                           int64_t cols) {
  if (rows == 0 || cols == 0 || options.usage == Usage::kNone) {
    return absl::OkStatus();
  }
  const CutUnits units = CutUnitsOf(options);
  const ShardPosition& at = options.shard;
  if (!options.splits && at.row_offset % units.rows != 0) {
    return FieldError("shard.row_offset",
                      fmt::format("a multiple of {}", units.rows),
                      fmt::to_string(at.row_offset));
  }
  if (at.column_offset % units.cols != 0) {
    return FieldError("shard.column_offset",
                      fmt::format("a multiple of {}", units.cols),
                      fmt::to_string(at.column_offset));
  }
  const int64_t end = at.column_offset + cols;
  if (at.total_columns > end && end % units.cols != 0) {
    return FieldError("shard.total_columns",
                      fmt::format("{}, or column_offset + K a multiple of {}",
                                  end, units.cols),
                      fmt::to_string(at.total_columns));
  }
  return absl::OkStatus();
}

TensorKind AmaxKindOf(const QuantizeOptions& o, bool columnwise) {
  const bool rotated =
      (columnwise ? o.rht.columnwise : o.rht.rowwise) && !Estimates(o);
  if (columnwise) {
    return rotated ? TensorKind::kColumnwiseRhtAmax
                   : TensorKind::kColumnwiseAmax;
  }
  return rotated ? TensorKind::kRowwiseRhtAmax : TensorKind::kRowwiseAmax;
}

RhtAmaxOptions AmaxOptionsOf(const QuantizeOptions& o) {
  RhtAmaxOptions amax;
  for (const bool columnwise : {false, true}) {
    if (!(columnwise ? HasColumnwise(o.usage) : HasRowwise(o.usage))) continue;
    const TensorKind kind = AmaxKindOf(o, columnwise);
    amax.rowwise |= kind == TensorKind::kRowwiseAmax;
    amax.rowwise_rht |= kind == TensorKind::kRowwiseRhtAmax;
    amax.columnwise |= kind == TensorKind::kColumnwiseAmax;
    amax.columnwise_rht |= kind == TensorKind::kColumnwiseRhtAmax;
  }
  if (amax.rowwise_rht || amax.columnwise_rht) {
    amax.rht_dimension = o.rht.dimension;
    amax.sign_mask = o.rht.sign_mask;
  }
  amax.non_finite = o.non_finite;
  amax.domain = HasAmaxOfLines(*FindFormat(o.format), o.form)
                    ? AmaxDomain::kRow
                    : AmaxDomain::kTensor;
  return amax;
}

DequantizeOptions DecodeOptionsOf(const QuantizeOptions& o, Usage copy,
                                  DType output) {
  DequantizeOptions decode;
  decode.format = o.format;
  decode.usage = copy;
  decode.output = output;
  decode.inverse_rht =
      copy == Usage::kColumnwise ? o.rht.columnwise : o.rht.rowwise;
  if (decode.inverse_rht) {
    decode.rht_dimension = o.rht.dimension;
    decode.sign_mask = o.rht.sign_mask;
  }
  decode.form = o.form;
  decode.splits = o.splits;
  decode.partial_splits = o.partial_splits;
  decode.profile = o.profile;
  return decode;
}

void AddStatistics(const std::optional<ErrorStatistics>& more,
                   std::optional<ErrorStatistics>* all) {
  if (!more) return;
  if (!*all) all->emplace();
  (*all)->elements += more->elements;
  (*all)->clipped += more->clipped;
  (*all)->flushed += more->flushed;
  (*all)->max_error = std::max((*all)->max_error, more->max_error);
  (*all)->signal += more->signal;
  (*all)->noise += more->noise;
}

float LargerAmax(float a, float b) {
  // If one is NaN, the result is NaN.
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? a : b;
  return std::max(a, b);
}

void Raise(absl::Span<float> whole, int64_t line,
           absl::Span<const float> values) {
  const size_t first = whole.size() == 1 ? 0 : static_cast<size_t>(line);
  for (size_t i = 0; i < values.size() && first + i < whole.size(); ++i) {
    float& a = whole[first + i];
    a = LargerAmax(a, values[i]);
  }
}

absl::Status CheckReduces(const Plan& plan) {
  const auto* o = std::get_if<QuantizeOptions>(&plan.options());
  const auto finds = [&](bool columnwise) {
    return SourceOfAmax(*o, columnwise).computed();
  };
  if (o == nullptr || !o->fp8.scale.empty() || !(finds(false) || finds(true))) {
    return FieldError("reduce_amax", "a Quantize that computes an amax",
                      "one that does not");
  }
  if (plan.grouped()) {
    return FieldError("splits", "none with reduce_amax", "groups");
  }
  if (o->fp8.history) {
    return FieldError("history", "none with reduce_amax", "one");
  }
  if (!o->rowwise_amax.empty() || !o->columnwise_amax.empty()) {
    return FieldError("given_amax",
                      "none with reduce_amax, because reduced_amax has them",
                      "one");
  }
  const bool lines = HasAmaxOfLines(*FindFormat(o->format), o->form);
  const auto values = [&](bool wanted, int64_t count) {
    return static_cast<size_t>(wanted ? lines ? count : 1 : 0);
  };
  const size_t all = values(HasRowwise(o->usage), plan.rows()) +
                     values(HasColumnwise(o->usage), plan.cols());
  if (all <= kMostReduced) return absl::OkStatus();
  return TooLargeError("reduce_amax",
                       fmt::format("at most {} amaxes", kMostReduced),
                       fmt::format("{}", all), kMostReduced);
}

absl::StatusOr<Plan> MaximaPlan(const Plan& plan) {
  return MakeRhtAmaxPlan(
      plan.tensor(), AmaxOptionsOf(std::get<QuantizeOptions>(plan.options())));
}

namespace {

template <typename ValuesOf>
CopyAmax ForCopies(const Plan& plan, ValuesOf values_of) {
  const auto& o = std::get<QuantizeOptions>(plan.options());
  CopyAmax amax;
  if (HasRowwise(o.usage)) amax.rowwise = values_of(o, false);
  if (HasColumnwise(o.usage)) amax.columnwise = values_of(o, true);
  return amax;
}

absl::Status CheckReduced(std::string_view field,
                          const std::vector<float>& expected,
                          const std::vector<float>& got) {
  if (got.size() != expected.size()) {
    return FieldError(
        field,
        fmt::format("{} value{}, as many as the maxima", expected.size(),
                    expected.size() == 1 ? "" : "s"),
        fmt::format("{}", got.size()));
  }
  for (const float a : got) {
    if (std::isfinite(a) && a >= 0) continue;
    return FieldError(field, "a finite number >= 0", fmt::format("{}", a));
  }
  return absl::OkStatus();
}

}  // namespace

CopyAmax ReadMaxima(const Plan& plan, const Plan& maxima,
                    absl::Span<const std::byte> output) {
  return ForCopies(plan, [&](const QuantizeOptions& o, bool columnwise) {
    const TensorSpec& spec = *maxima.output(AmaxKindOf(o, columnwise));
    std::vector<float> values(spec.size / sizeof(float));
    if (!values.empty()) {
      std::memcpy(values.data(), output.data() + spec.offset, spec.size);
    }
    return values;
  });
}

CopyAmax NoMaxima(const Plan& plan) {
  return ForCopies(plan, [&](const QuantizeOptions& o, bool columnwise) {
    const bool lines = HasAmaxOfLines(*FindFormat(o.format), o.form);
    const int64_t count = columnwise ? plan.cols() : plan.rows();
    return std::vector<float>(static_cast<size_t>(lines ? count : 1));
  });
}

void SettleAmax(const Plan& plan, CopyAmax* amax) {
  const auto& o = std::get<QuantizeOptions>(plan.options());
  for (const bool columnwise : {false, true}) {
    const AmaxSource source = SourceOfAmax(o, columnwise);
    auto& values = columnwise ? amax->columnwise : amax->rowwise;
    if (source.kind == AmaxSource::Kind::kGiven) values = source.values();
    if (!source.computed()) continue;
    for (float& a : values) a *= source.factor;
  }
}

absl::StatusOr<Plan> SettledPlan(const Plan& plan, const CopyAmax& reduced) {
  const CopyAmax expected = NoMaxima(plan);
  if (auto s = CheckReduced("reduced_amax.rowwise", expected.rowwise,
                            reduced.rowwise);
      !s.ok()) {
    return s;
  }
  if (auto s = CheckReduced("reduced_amax.columnwise", expected.columnwise,
                            reduced.columnwise);
      !s.ok()) {
    return s;
  }
  QuantizeOptions o = std::get<QuantizeOptions>(plan.options());
  o.rowwise_amax = reduced.rowwise;
  o.columnwise_amax = reduced.columnwise;
  o.nvfp4.amax_estimation_scale.reset();
  return MakeQuantizePlan(plan.tensor(), o);
}

}  // namespace quantd
