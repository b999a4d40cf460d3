#include "client/python/native/reply.h"

#include <optional>
#include <string_view>

#include "fmt/format.h"
#include "kernels/device/backend.h"
#include "proto/messages.h"
#include "proto/wire.h"
#include "quantd.pb.h"
#include "quantd/error.h"

namespace quantd::python {
namespace {

// Removes an ending, because the Python package appends its own to messages.
void TakeEnding(std::string_view ending, std::string_view* text) {
  if (text->ends_with(ending)) text->remove_suffix(ending.size());
}

std::optional<v1::ErrorDetail> DetailOf(const absl::Status& status) {
  v1::ErrorDetail detail;
  const auto violation = GetFieldViolation(status);
  const auto server = GetServerError(status);
  if (violation) {
    detail.set_reason(v1::ErrorDetail::REASON_INVALID_FIELD);
    detail.set_field(violation->field);
    detail.set_expected(violation->expected);
    detail.set_got(violation->got);
  }
  if (server) {
    detail.set_reason(
        static_cast<v1::ErrorDetail::Reason>(static_cast<int>(server->reason)));
    detail.set_limit(server->limit);
    detail.set_retry_delay_ms(
        static_cast<uint32_t>(server->retry_delay.count()));
  } else if (wire::IsMalformed(status)) {
    detail.set_reason(v1::ErrorDetail::REASON_MALFORMED);
  } else if (!violation) {
    return std::nullopt;
  }
  return detail;
}

}  // namespace

std::string ReplyOf(const Plan& plan, const Result& result) {
  JobReport report;
  report.saw_nan = result.saw_nan();
  report.saw_inf = result.saw_inf();
  report.replaced_globals = result.replaced_globals();
  report.rowwise = result.statistics(Usage::kRowwise);
  report.columnwise = result.statistics(Usage::kColumnwise);
  std::string head =
      wire::ReplyHead(plan, report, result.device(), /*request_id=*/"");
  // The head ends with the tag and size of the payload, which does not follow
  // here.
  std::string prefix;
  wire::AppendPayloadPrefix(plan.output_bytes(), &prefix);
  head.resize(head.size() - prefix.size());
  return head;
}

std::string ReplyOf(const QuantizeDescription& description) {
  v1::DescribeQuantizeReply reply;
  for (const TensorSpec& part : description.parts) {
    *reply.add_tensors() = wire::ToProto(part);
  }
  reply.set_input_bytes(description.input_bytes);
  reply.set_output_bytes(description.output_bytes);
  reply.set_scratch_bytes(description.scratch_bytes);
  reply.set_request_id(description.request_id);
  return reply.SerializeAsString();
}

std::string ReplyOf(const ServerInfo& info) {
  v1::GetServerInfoReply reply;
  reply.set_version(info.version);
  v1::Limits& limits = *reply.mutable_limits();
  limits.set_max_request_bytes(info.max_request_bytes);
  limits.set_memory_budget_bytes(info.memory_budget_bytes);
  limits.set_max_rank(static_cast<uint32_t>(info.max_rank));
  limits.set_reduce_amax(info.reduces_amax);
  limits.set_amax_estimation_scale(info.amax_estimation_scale);
  for (const DeviceInfo& d : info.devices) {
    v1::Device& device = *reply.add_devices();
    device.set_name(d.name);
    device.set_kind(d.kind);
    device.set_description(d.description);
    device.set_state(d.healthy ? v1::Device::STATE_HEALTHY
                               : v1::Device::STATE_QUARANTINED);
    device.set_memory_limit_bytes(d.memory_limit_bytes);
    device.set_memory_high_water_bytes(d.memory_high_water_bytes);
    device.set_jobs(d.jobs);
    device.set_rht_cache_hits(d.rht_cache_hits);
    device.set_rht_cache_misses(d.rht_cache_misses);
    device.set_rht_launches(d.rht_launches);
  }
  for (const FormatSupport& f : info.formats) {
    v1::FormatSupport& format = *reply.add_formats();
    format.set_format(wire::ToProto(f.format));
    format.set_name(f.name);
    for (const std::string& kind : f.device_kinds) {
      format.add_device_kinds(kind);
    }
    for (const DType t : f.inputs) format.add_inputs(wire::ToProto(t));
    for (const Usage u : f.usages) format.add_usages(wire::ToProto(u));
    for (const int n : f.rht_dimensions) {
      format.add_rht_dimensions(static_cast<uint32_t>(n));
    }
    for (const std::string& option : f.options) format.add_options(option);
  }
  return reply.SerializeAsString();
}

Failure FailureOf(const absl::Status& status) {
  Failure failure;
  failure.code = static_cast<int>(status.code());
  failure.request_id = GetRequestId(status);
  failure.attempts = GetAttempts(status);
  const std::string message(status.message());
  std::string_view text = message;
  if (failure.attempts > 1) {
    TakeEnding(fmt::format(" (sent {} times)", failure.attempts), &text);
  }
  if (!failure.request_id.empty()) {
    TakeEnding(fmt::format(" (request id {})", failure.request_id), &text);
  }
  failure.message = text;
  if (const auto detail = DetailOf(status)) {
    failure.detail = detail->SerializeAsString();
  }
  return failure;
}

}  // namespace quantd::python
