// What a server answers, made into results. Nothing in it is trusted.
#include <utility>

#include "client/net/messages.h"
#include "client/parts/result_builder.h"
#include "proto/wire.h"
#include "quantd.pb.h"

namespace quantd::client {
namespace {

absl::Status NotOurMessage() {
  return absl::InternalError("the reply is not a message of quantd.v1");
}

template <typename Reply>
absl::StatusOr<Reply> Parse(absl::Span<const std::string_view> slices) {
  std::string bytes;
  for (std::string_view s : slices) bytes += s;
  Reply reply;
  if (!reply.ParseFromString(bytes)) return NotOurMessage();
  return reply;
}

// The ratio is not read: it follows from the sums.
ErrorStatistics Statistics(const v1::ErrorStatistics& message) {
  ErrorStatistics s;
  s.elements = message.elements();
  s.clipped = message.clipped();
  s.flushed = message.flushed();
  s.max_error = message.max_error();
  s.signal = message.signal();
  s.noise = message.noise();
  return s;
}

template <typename Reply>
absl::StatusOr<Result> ReadAs(const Plan& plan,
                              absl::Span<const std::string_view> slices,
                              absl::Span<const Destination> into,
                              int attempts) {
  const auto split = wire::SplitPayload(slices, wire::kMaxReplyHeadBytes);
  Reply reply;
  if (!split.ok() || !reply.ParseFromString(split->head)) {
    return NotOurMessage();
  }
  ResultBuilder builder(plan, into);
  for (const v1::TensorRef& ref : reply.tensors()) {
    ResultBuilder::Source source;
    source.kind = wire::FromProto(ref.kind());
    source.dtype = wire::FromProto(ref.dtype());
    source.shape.assign(ref.shape().begin(), ref.shape().end());
    source.offset = ref.offset();
    source.size = ref.size();
    source.layout = wire::FromProto(ref.layout());
    source.group_offsets.assign(ref.group_offsets().begin(),
                                ref.group_offsets().end());
    if (auto s = builder.Add(source, slices, split->payload.offset,
                             split->payload.size);
        !s.ok()) {
      return s;
    }
  }
  const v1::Report& report = reply.report();
  ResultBuilder::Report out;
  out.saw_nan = report.saw_nan();
  out.saw_inf = report.saw_inf();
  if (report.has_rowwise()) out.rowwise = Statistics(report.rowwise());
  if (report.has_columnwise()) out.columnwise = Statistics(report.columnwise());
  out.device = report.device();
  out.request_id = reply.request_id();
  out.attempts = attempts;
  return builder.Take(std::move(out));
}

}  // namespace

absl::StatusOr<Result> ReadReply(const Plan& plan,
                                 absl::Span<const std::string_view> slices,
                                 absl::Span<const Destination> into,
                                 int attempts) {
  switch (plan.options().index()) {
    case 0:
      return ReadAs<v1::QuantizeReply>(plan, slices, into, attempts);
    case 1:
      return ReadAs<v1::DequantizeReply>(plan, slices, into, attempts);
    case 2:
      return ReadAs<v1::RhtAmaxReply>(plan, slices, into, attempts);
    default:
      return ReadAs<v1::ApplyRhtReply>(plan, slices, into, attempts);
  }
}

absl::StatusOr<QuantizeDescription> ReadDescription(
    absl::Span<const std::string_view> slices) {
  const auto reply = Parse<v1::DescribeQuantizeReply>(slices);
  if (!reply.ok()) return reply.status();
  QuantizeDescription out;
  for (const v1::TensorRef& ref : reply->tensors()) {
    TensorSpec spec;
    spec.kind = wire::FromProto(ref.kind());
    spec.dtype = wire::FromProto(ref.dtype());
    spec.layout = wire::FromProto(ref.layout());
    spec.shape.assign(ref.shape().begin(), ref.shape().end());
    spec.offset = ref.offset();
    spec.size = ref.size();
    spec.group_offsets.assign(ref.group_offsets().begin(),
                              ref.group_offsets().end());
    out.parts.push_back(std::move(spec));
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
