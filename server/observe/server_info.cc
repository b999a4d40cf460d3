#include "server/observe/server_info.h"

#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "proto/server_info.h"

namespace quantd {
SmallMethod GetServerInfo(const Engine& engine, const v1::Limits& limits) {
  SmallMethod method(wire::Method::kGetServerInfo);
  method.while_draining = false;
  // The request has no fields. Unknown ones are ignored.
  method.answer = [&engine, &limits](absl::Span<const std::string_view>,
                                     std::string_view) {
    std::vector<wire::DeviceState> devices;
    for (size_t i = 0; i < engine.size(); ++i) {
      const Backend& backend = engine.backend(i);
      devices.push_back(
          {backend.info(), backend.stats(), engine.health(i).healthy()});
    }
    v1::GetServerInfoReply reply = wire::DescribeDevices(devices);
    reply.set_version(QUANTD_VERSION);
    *reply.mutable_limits() = limits;
    SmallAnswer answer;
    answer.reply = reply.SerializeAsString();
    return answer;
  };
  return method;
}

SmallMethod DescribeQuantize(const wire::RequestDefaults& defaults) {
  SmallMethod method(wire::Method::kDescribeQuantize);
  method.plans_apart = true;
  method.while_draining = false;
  method.answer = [&defaults](absl::Span<const std::string_view> message,
                              std::string_view request_id) {
    SmallAnswer answer;
    const auto plan = wire::ParseDescribeRequest(message, defaults);
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
