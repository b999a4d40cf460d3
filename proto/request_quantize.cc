// What a QuantizeRequest asks for.
#include <string>

#include "fmt/format.h"
#include "kernels/plan/amax_source.h"
#include "kernels/plan/field_error.h"
#include "kernels/plan/shard_cut.h"
#include "proto/request_fields.h"

namespace quantd::wire {
namespace {

using Floats = google::protobuf::RepeatedField<float>;

// One direction of GivenAmax: a value, or a list of them.
absl::Status ReadAmax(std::string_view field, bool has_one, float one,
                      const Floats& many, std::vector<float>* out) {
  if (has_one && !many.empty()) {
    return FieldError(field, fmt::format("one value here or {}_values", field),
                      "both");
  }
  if (has_one) {
    *out = {one};
  } else {
    out->assign(many.begin(), many.end());
  }
  return absl::OkStatus();
}

HistoryOptions ReadHistory(const v1::History& message) {
  HistoryOptions history;
  history.amax.assign(message.amax().begin(), message.amax().end());
  history.rule = static_cast<HistoryRule>(message.rule());
  history.margin = message.margin();
  return history;
}

// What is not read where it stands alone. Unknown numbers of enums pass
// through: the plan names them in its error.
absl::StatusOr<QuantizeOptions> ReadOptions(const v1::QuantizeRequest& m) {
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
  const v1::GivenAmax& amax = m.given_amax();
  QUANTD_RETURN_IF_ERROR(ReadAmax("given_amax.rowwise", amax.has_rowwise(),
                                  amax.rowwise(), amax.rowwise_values(),
                                  &o.rowwise_amax));
  QUANTD_RETURN_IF_ERROR(ReadAmax(
      "given_amax.columnwise", amax.has_columnwise(), amax.columnwise(),
      amax.columnwise_values(), &o.columnwise_amax));
  o.form = ReadForm(m.form());
  o.rounding = static_cast<Rounding>(m.rounding());
  o.stochastic.seed = m.stochastic().seed();
  o.stochastic.seed_offset = m.stochastic().seed_offset();
  o.shard.row_offset = m.shard().row_offset();
  o.shard.column_offset = m.shard().column_offset();
  o.shard.total_columns = m.shard().total_columns();
  o.four_over_six = static_cast<FourOverSix>(m.four_over_six());
  o.fast_error = m.fast_error();
  if (m.has_amax_estimation_scale()) {
    o.amax_estimation_scale = m.amax_estimation_scale();
  }
  o.epsilon = m.epsilon();
  if (m.has_power_of_two()) o.power_of_two = m.power_of_two();
  o.scale.assign(m.scale().begin(), m.scale().end());
  if (m.has_history()) o.history = ReadHistory(m.history());
  o.scale_rule = static_cast<ScaleRule>(m.scale_rule());
  if (m.has_splits()) o.splits = ReadSplits(m.splits());
  o.partial_splits = m.splits().partial();
  o.amax = m.amax();
  o.dbias = m.dbias();
  o.dbias_dtype = static_cast<DType>(m.dbias_dtype());
  o.statistics = m.statistics();
  return o;
}

}  // namespace

absl::Status ReadPlan(const v1::QuantizeRequest& message,
                      const RequestDefaults& defaults, Request* request) {
  absl::StatusOr<TensorDesc> tensor = ReadTensor(message.tensor());
  if (!tensor.ok()) return tensor.status();
  absl::StatusOr<QuantizeOptions> options = ReadOptions(message);
  if (!options.ok()) return options.status();
  if (!message.has_amax_estimation_scale() &&
      defaults.amax_estimation_scale != 0 && MayEstimate(*options)) {
    options->amax_estimation_scale = defaults.amax_estimation_scale;
  }
  absl::Status status = Adopt(MakeQuantizePlan(*tensor, *options), request);
  // The plan does not know in which of its two forms an amax came.
  if (!message.given_amax().rowwise_values().empty()) {
    status =
        RenameField(status, "given_amax.rowwise", "given_amax.rowwise_values");
  }
  if (!message.given_amax().columnwise_values().empty()) {
    status = RenameField(status, "given_amax.columnwise",
                         "given_amax.columnwise_values");
  }
  if (!status.ok()) return status;
  const Plan& plan = *request->plan;
  return CheckShardCut(std::get<QuantizeOptions>(plan.options()), plan.rows(),
                       plan.cols());
}

absl::Status Read(const v1::QuantizeRequest& message, const Range& payload,
                  const RequestDefaults& defaults, Request* request) {
  QUANTD_RETURN_IF_ERROR(ReadPlan(message, defaults, request));
  return WholePayload(payload, request);
}

}  // namespace quantd::wire
