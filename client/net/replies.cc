#include "client/net/replies.h"

#include <utility>

#include "client/call/error_details.h"
#include "client/tensors/result_builder.h"
#include "proto/messages.h"
#include "proto/wire.h"
#include "quantd.pb.h"

namespace quantd::client {

absl::Status NotOurMessage() {
  return absl::InternalError("the reply is not a valid quantd.v1 message");
}

namespace {

template <typename Reply>
absl::StatusOr<Reply> Parse(absl::Span<const std::string_view> slices) {
  std::string bytes;
  for (std::string_view s : slices) bytes += s;
  Reply reply;
  if (!reply.ParseFromString(bytes)) return NotOurMessage();
  return reply;
}

bool IsWhereAsked(const Plan& plan, const wire::LentRanges& lent,
                  TensorKind kind, const wire::MemoryRange& place) {
  const TensorSpec* const part = plan.output(kind);
  if (part == nullptr || lent.outputs.empty()) return false;
  const wire::MemoryRange& asked = lent.outputs[part - plan.outputs().data()];
  return asked.region == place.region && asked.offset == place.offset &&
         asked.size == place.size;
}

}  // namespace

absl::StatusOr<Result> ReadReply(const Plan& plan,
                                 absl::Span<const std::string_view> slices,
                                 absl::Span<const Destination> into,
                                 const wire::LentRanges& lent,
                                 Transport by_loan, const Trip& trip) {
  auto reply = wire::ParseReply(wire::MethodOf(plan), slices, &plan);
  if (absl::IsUnimplemented(reply.status())) {
    return Annotate(reply.status(), std::string(reply.status().message()),
                    trip.attempts);
  }
  if (!reply.ok()) return NotOurMessage();
  ResultBuilder builder(plan, into);
  for (size_t i = 0; i < reply->tensors.size(); ++i) {
    const TensorSpec& part = reply->tensors[i];
    const absl::Status added =
        !reply->lent[i] ? builder.Add(part, slices, reply->payload.offset,
                                      reply->payload.size)
        : IsWhereAsked(plan, lent, part.kind, reply->lent[i])
            ? builder.AddInPlace(part)
            : NotOurMessage();
    if (!added.ok()) return added;
  }
  const bool shared = !lent.inputs.empty() || !lent.outputs.empty();
  const auto& report = reply->report;
  return builder.Take({report.saw_nan, report.saw_inf, report.rowwise,
                       report.columnwise, std::move(reply->device),
                       std::move(reply->request_id), trip.attempts,
                       report.replaced_globals,
                       shared         ? by_loan
                       : trip.by_unix ? Transport::kUnix
                                      : Transport::kTcp});
}

absl::StatusOr<QuantizeDescription> ReadDescription(
    absl::Span<const std::string_view> slices) {
  const auto reply = Parse<v1::DescribeQuantizeReply>(slices);
  if (!reply.ok()) return reply.status();
  QuantizeDescription out;
  for (const v1::TensorRef& ref : reply->tensors()) {
    out.parts.push_back(wire::FromProto(ref));
  }
  out.input_bytes = reply->input_bytes();
  out.output_bytes = reply->output_bytes();
  out.scratch_bytes = reply->scratch_bytes();
  out.request_id = reply->request_id();
  return out;
}

absl::StatusOr<ServerInfo> ReadServerInfo(
    absl::Span<const std::string_view> slices) {
  const auto reply = Parse<v1::GetServerInfoReply>(slices);
  if (!reply.ok()) return reply.status();
  ServerInfo info;
  info.version = reply->version();
  info.max_request_bytes = reply->limits().max_request_bytes();
  info.memory_budget_bytes = reply->limits().memory_budget_bytes();
  info.max_rank = static_cast<int>(reply->limits().max_rank());
  info.amax_estimation_scale = reply->limits().amax_estimation_scale();
  info.reduces_amax = reply->limits().reduce_amax();
  for (const v1::Device& d : reply->devices()) {
    DeviceInfo device;
    device.name = d.name();
    device.kind = d.kind();
    device.description = d.description();
    device.healthy = d.state() == v1::Device::STATE_HEALTHY;
    device.memory_limit_bytes = d.memory_limit_bytes();
    device.memory_high_water_bytes = d.memory_high_water_bytes();
    device.jobs = d.jobs();
    device.rht_cache_hits = d.rht_cache_hits();
    device.rht_cache_misses = d.rht_cache_misses();
    device.rht_launches = d.rht_launches();
    info.devices.push_back(std::move(device));
  }
  for (const v1::FormatSupport& f : reply->formats()) {
    FormatSupport support;
    support.format = wire::FromProto(f.format());
    support.name = f.name();
    support.device_kinds.assign(f.device_kinds().begin(),
                                f.device_kinds().end());
    for (int t : f.inputs()) {
      support.inputs.push_back(wire::FromProto(static_cast<v1::DType>(t)));
    }
    for (int u : f.usages()) {
      support.usages.push_back(static_cast<Usage>(u));
    }
    support.rht_dimensions.assign(f.rht_dimensions().begin(),
                                  f.rht_dimensions().end());
    support.options.assign(f.options().begin(), f.options().end());
    info.formats.push_back(std::move(support));
  }
  return info;
}

}  // namespace quantd::client
