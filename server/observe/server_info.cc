#include "server/observe/server_info.h"

#include <vector>

#include "proto/answers.h"

namespace quantd {

v1::GetServerInfoReply ServerInfoOf(const Engine& engine,
                                    const v1::Limits& limits) {
  std::vector<wire::DeviceState> devices;
  for (size_t i = 0; i < engine.size(); ++i) {
    const Backend& backend = engine.backend(i);
    devices.push_back(
        {backend.info(), backend.stats(), engine.health(i).healthy()});
  }
  v1::GetServerInfoReply reply = wire::DescribeDevices(devices);
  reply.set_version(QUANTD_VERSION);
  *reply.mutable_limits() = limits;
  return reply;
}

}  // namespace quantd
