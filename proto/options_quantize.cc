// Conversion of the options of Quantize.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "proto/option_fields.h"
#include "quantd/field_error.h"

namespace quantd::wire {
namespace {

using Floats = google::protobuf::RepeatedField<float>;

// Reads one direction of GivenAmax: a value or a list of values.
absl::Status ReadAmax(std::string_view message, std::string_view direction,
                      bool has_one, float one, const Floats& many,
                      std::vector<float>* out) {
  const std::string field = fmt::format("{}.{}", message, direction);
  if (has_one && !many.empty()) {
    return FieldError(field, fmt::format("this or {}_values, not both", field),
                      "both");
  }
  if (has_one) {
    *out = {one};
  } else {
    out->assign(many.begin(), many.end());
  }
  return absl::OkStatus();
}

HistoryOptions HistoryFromProto(const v1::History& message) {
  HistoryOptions history;
  history.amax.assign(message.amax().begin(), message.amax().end());
  history.rule = static_cast<HistoryRule>(message.rule());
  history.margin = message.margin();
  return history;
}

v1::History HistoryToProto(const HistoryOptions& history) {
  v1::History out;
  out.mutable_amax()->Assign(history.amax.begin(), history.amax.end());
  out.set_rule(ToProto(history.rule));
  out.set_margin(history.margin);
  return out;
}

}  // namespace

absl::StatusOr<CopyAmax> FromProto(const v1::GivenAmax& m,
                                   std::string_view field) {
  CopyAmax amax;
  QUANTD_RETURN_IF_ERROR(ReadAmax(field, "rowwise", m.has_rowwise(),
                                  m.rowwise(), m.rowwise_values(),
                                  &amax.rowwise));
  QUANTD_RETURN_IF_ERROR(ReadAmax(field, "columnwise", m.has_columnwise(),
                                  m.columnwise(), m.columnwise_values(),
                                  &amax.columnwise));
  return amax;
}

v1::GivenAmax ToProto(const CopyAmax& amax) {
  v1::GivenAmax out;
  if (amax.rowwise.size() == 1) {
    out.set_rowwise(amax.rowwise[0]);
  } else {
    out.mutable_rowwise_values()->Assign(amax.rowwise.begin(),
                                         amax.rowwise.end());
  }
  if (amax.columnwise.size() == 1) {
    out.set_columnwise(amax.columnwise[0]);
  } else {
    out.mutable_columnwise_values()->Assign(amax.columnwise.begin(),
                                            amax.columnwise.end());
  }
  return out;
}

absl::StatusOr<QuantizeOptions> FromProto(const v1::QuantizeOptions& m) {
  QuantizeOptions o;
  o.format = static_cast<Format>(m.format());
  o.usage = ReadUsage(m.usage());
  o.rht.rowwise = m.rht().rowwise();
  o.rht.columnwise = m.rht().columnwise();
  QUANTD_RETURN_IF_ERROR(
      ReadRht("rht", m.rht(), &o.rht.dimension, &o.rht.sign_mask));
  if (m.has_rht() && !o.rht.rowwise && !o.rht.columnwise) {
    return FieldError("rht", "rowwise or columnwise, the copy to rotate",
                      "neither");
  }
  o.non_finite = static_cast<NonFinite>(m.non_finite());
  absl::StatusOr<CopyAmax> amax = FromProto(m.given_amax(), "given_amax");
  if (!amax.ok()) return amax.status();
  o.rowwise_amax = std::move(amax->rowwise);
  o.columnwise_amax = std::move(amax->columnwise);
  o.form = FromProto(m.form());
  o.rounding = static_cast<Rounding>(m.rounding());
  o.stochastic.seed = m.stochastic().seed();
  o.stochastic.seed_offset = m.stochastic().seed_offset();
  o.shard.row_offset = m.shard().row_offset();
  o.shard.column_offset = m.shard().column_offset();
  o.shard.total_columns = m.shard().total_columns();
  o.nvfp4.four_over_six = static_cast<FourOverSix>(m.four_over_six());
  o.nvfp4.fast_error = m.fast_error();
  o.nvfp4.scale_search = m.scale_search();
  if (m.has_amax_estimation_scale()) {
    o.nvfp4.amax_estimation_scale = m.amax_estimation_scale();
  }
  o.fp8.epsilon = m.epsilon();
  if (m.has_power_of_two()) o.fp8.power_of_two = m.power_of_two();
  o.fp8.scale.assign(m.scale().begin(), m.scale().end());
  if (m.has_history()) o.fp8.history = HistoryFromProto(m.history());
  if (m.has_scale_rule()) {
    o.mx.scale_rule = static_cast<ScaleRule>(m.scale_rule());
  }
  ReadSplits(m, &o);
  o.want_amax = m.amax();
  o.dbias = m.dbias();
  o.dbias_dtype = static_cast<DType>(m.dbias_dtype());
  o.statistics = m.statistics();
  o.profile = static_cast<Profile>(m.profile());
  return o;
}

v1::QuantizeOptions ToProto(const QuantizeOptions& o) {
  v1::QuantizeOptions m;
  m.set_format(ToProto(o.format));
  m.set_usage(ToProto(o.usage));
  if (o.rht.rowwise || o.rht.columnwise) {
    *m.mutable_rht() = ToProto(o.rht.dimension, o.rht.sign_mask);
    m.mutable_rht()->set_rowwise(o.rht.rowwise);
    m.mutable_rht()->set_columnwise(o.rht.columnwise);
  }
  m.set_non_finite(ToProto(o.non_finite));
  if (!o.rowwise_amax.empty() || !o.columnwise_amax.empty()) {
    *m.mutable_given_amax() =
        ToProto(CopyAmax{o.rowwise_amax, o.columnwise_amax});
  }
  *m.mutable_form() = ToProto(o.form);
  m.set_rounding(ToProto(o.rounding));
  // Only options that determine the bytes are echoed: these affect stochastic
  // rounding only.
  if (o.rounding == Rounding::kStochastic) {
    m.mutable_stochastic()->set_seed(o.stochastic.seed);
    m.mutable_stochastic()->set_seed_offset(o.stochastic.seed_offset);
    m.mutable_shard()->set_row_offset(o.shard.row_offset);
    m.mutable_shard()->set_column_offset(o.shard.column_offset);
    m.mutable_shard()->set_total_columns(o.shard.total_columns);
  }
  m.set_four_over_six(ToProto(o.nvfp4.four_over_six));
  m.set_fast_error(o.nvfp4.fast_error);
  m.set_scale_search(o.nvfp4.scale_search);
  if (o.nvfp4.amax_estimation_scale) {
    m.set_amax_estimation_scale(*o.nvfp4.amax_estimation_scale);
  }
  m.set_epsilon(o.fp8.epsilon);
  if (o.fp8.power_of_two) m.set_power_of_two(*o.fp8.power_of_two);
  m.mutable_scale()->Assign(o.fp8.scale.begin(), o.fp8.scale.end());
  if (o.fp8.history) *m.mutable_history() = HistoryToProto(*o.fp8.history);
  if (o.mx.scale_rule) m.set_scale_rule(ToProto(*o.mx.scale_rule));
  WriteSplits(o, &m);
  m.set_amax(o.want_amax);
  m.set_dbias(o.dbias);
  m.set_dbias_dtype(ToProto(o.dbias_dtype));
  m.set_statistics(o.statistics);
  m.set_profile(ToProto(o.profile));
  return m;
}

}  // namespace quantd::wire
