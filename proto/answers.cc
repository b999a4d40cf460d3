#include "proto/answers.h"

#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/plan/support.h"
#include "proto/messages.h"

namespace quantd::wire {
namespace {

absl::StatusOr<Answer> DescribeQuantize(Slices request, const Facts& facts,
                                        std::string_view request_id) {
  const auto plan =
      ParseDescribeRequest(request, facts.defaults, facts.max_reply_payload);
  if (!plan.ok()) return plan.status();
  return Answer{DescribeReply(**plan, request_id),
                fmt::format("{}", fmt::join((*plan)->tensor().shape, "x"))};
}

void AddSupport(const FormatSpec& spec, const std::set<std::string>& kinds,
                v1::FormatSupport* out) {
  out->set_format(ToProto(spec.format));
  out->set_name(std::string(spec.name));
  for (const std::string& kind : kinds) out->add_device_kinds(kind);
  for (const DType t : kInputTypes) out->add_inputs(ToProto(t));
  for (const Usage u : kUsages) out->add_usages(ToProto(u));
  if (spec.options & kOptRht) {
    for (const int n : kRhtDimensions) out->add_rht_dimensions(n);
  }
  for (const std::string_view name : OptionsOf(spec)) {
    out->add_options(std::string(name));
  }
}

}  // namespace

absl::StatusOr<Answer> AnswerRequest(Method method, Slices request,
                                     const Facts& facts,
                                     std::string_view request_id) {
  switch (method) {
    case Method::kDescribeQuantize:
      return DescribeQuantize(request, facts, request_id);
    case Method::kGetServerInfo:  // Whatever the request contains is ignored.
      return Answer{facts.info().SerializeAsString(), ""};
    default:
      return absl::InternalError("not a method without a payload");
  }
}

v1::GetServerInfoReply DescribeDevices(
    const std::vector<DeviceState>& devices) {
  v1::GetServerInfoReply reply;
  std::set<std::string> kinds;
  for (const auto& [info, stats, healthy] : devices) {
    v1::Device* device = reply.add_devices();
    device->set_name(info.name);
    device->set_kind(info.kind);
    device->set_description(info.description);
    device->set_state(healthy ? v1::Device::STATE_HEALTHY
                              : v1::Device::STATE_QUARANTINED);
    device->set_memory_limit_bytes(info.memory_limit);
    device->set_memory_high_water_bytes(stats.pool_high_water);
    device->set_jobs(stats.jobs);
    device->set_rht_cache_hits(stats.rht_cache_hits);
    device->set_rht_cache_misses(stats.rht_cache_misses);
    device->set_rht_launches(stats.rht_launches);
    kinds.insert(info.kind);
  }
  for (const FormatSpec& spec : kFormats) {
    AddSupport(spec, kinds, reply.add_formats());
  }
  return reply;
}

ServerInfo FromProto(const v1::GetServerInfoReply& reply) {
  ServerInfo info;
  info.version = reply.version();
  info.max_request_bytes = reply.limits().max_request_bytes();
  info.memory_budget_bytes = reply.limits().memory_budget_bytes();
  info.max_rank = static_cast<int>(reply.limits().max_rank());
  info.amax_estimation_scale = reply.limits().amax_estimation_scale();
  info.reduces_amax = reply.limits().reduce_amax();
  for (const v1::Device& d : reply.devices()) {
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
  for (const v1::FormatSupport& f : reply.formats()) {
    FormatSupport support;
    support.format = FromProto(f.format());
    support.name = f.name();
    support.device_kinds.assign(f.device_kinds().begin(),
                                f.device_kinds().end());
    for (int t : f.inputs()) {
      support.inputs.push_back(FromProto(static_cast<v1::DType>(t)));
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

QuantizeDescription FromProto(const v1::DescribeQuantizeReply& reply) {
  QuantizeDescription out;
  for (const v1::TensorRef& ref : reply.tensors()) {
    out.parts.push_back(FromProto(ref));
  }
  out.input_bytes = reply.input_bytes();
  out.output_bytes = reply.output_bytes();
  out.scratch_bytes = reply.scratch_bytes();
  out.request_id = reply.request_id();
  return out;
}

}  // namespace quantd::wire
