#include "server/observe/server_info.h"

#include <set>
#include <string>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/plan/support.h"
#include "proto/messages.h"

namespace quantd {
namespace {

void AddSupport(const FormatSpec& spec, const std::set<std::string>& kinds,
                v1::FormatSupport* out) {
  out->set_format(wire::ToProto(spec.format));
  out->set_name(std::string(spec.name));
  for (const std::string& kind : kinds) out->add_device_kinds(kind);
  for (const DType t : kInputTypes) out->add_inputs(wire::ToProto(t));
  for (const Usage u : kUsages) out->add_usages(wire::ToProto(u));
  if (spec.options & kOptRht) {
    for (const int n : kRhtDimensions) out->add_rht_dimensions(n);
  }
  for (const std::string_view name : OptionsOf(spec)) {
    out->add_options(std::string(name));
  }
}

v1::GetServerInfoReply Describe(const Engine& engine,
                                const v1::Limits& limits) {
  v1::GetServerInfoReply reply;
  reply.set_version(QUANTD_VERSION);
  *reply.mutable_limits() = limits;
  std::set<std::string> kinds;
  for (size_t i = 0; i < engine.size(); ++i) {
    const BackendInfo& info = engine.backend(i).info();
    const BackendStats stats = engine.backend(i).stats();
    v1::Device* device = reply.add_devices();
    device->set_name(info.name);
    device->set_kind(info.kind);
    device->set_description(info.description);
    device->set_state(engine.health(i).healthy()
                          ? v1::Device::STATE_HEALTHY
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

}  // namespace

SmallMethod ServerInfo::GetServerInfo() const {
  SmallMethod method(wire::Method::kGetServerInfo);
  method.while_draining = false;
  // The request has no fields. Unknown ones are ignored.
  method.answer = [this](absl::Span<const std::string_view>, std::string_view) {
    SmallAnswer answer;
    answer.reply = Describe(*engine_, limits_).SerializeAsString();
    return answer;
  };
  return method;
}

SmallMethod ServerInfo::DescribeQuantize() const {
  SmallMethod method(wire::Method::kDescribeQuantize);
  method.plans_apart = true;
  method.while_draining = false;
  method.answer = [this](absl::Span<const std::string_view> message,
                         std::string_view request_id) {
    SmallAnswer answer;
    const auto plan =
        wire::ParseDescribeRequest(message, {limits_.amax_estimation_scale()});
    if (plan.ok()) {
      answer.shape = fmt::format("{}", fmt::join((*plan)->tensor().shape, "x"));
      answer.reply = wire::DescribeReply(**plan, request_id);
    } else {
      answer.failure = Failure::BadRequest(plan.status());
    }
    return answer;
  };
  return method;
}

}  // namespace quantd
