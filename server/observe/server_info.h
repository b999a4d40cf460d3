// What this server is, can do and allows, and what a request would give: the
// answers that need no device and no payload.
#ifndef QUANTD_SERVER_OBSERVE_SERVER_INFO_H_
#define QUANTD_SERVER_OBSERVE_SERVER_INFO_H_

#include <string_view>
#include <utility>

#include "kernels/device/engine.h"
#include "proto/wire.h"
#include "quantd.pb.h"
#include "server/calls/small_call.h"

namespace quantd {

// Threads: everything here may be used from any thread.
class ServerInfo {
 public:
  // `engine` must outlive it.
  ServerInfo(const Engine* engine, v1::Limits limits)
      : engine_(engine), limits_(std::move(limits)) {}

  SmallMethod GetServerInfo() const;
  SmallMethod DescribeQuantize() const;

 private:
  v1::GetServerInfoReply Describe() const;

  const Engine* const engine_;
  const v1::Limits limits_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_SERVER_INFO_H_
