// What this server is, can do and allows, and what a request would give: the
// answers that need no device and no payload.
#ifndef QUANTD_SERVER_OBSERVE_SERVER_INFO_H_
#define QUANTD_SERVER_OBSERVE_SERVER_INFO_H_

#include <string_view>
#include <utility>

#include "kernels/device/engine.h"
#include "proto/wire.h"
#include "quantd.pb.h"
#include "server/calls/small_method.h"

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
  const Engine* const engine_;
  const v1::Limits limits_;
};

// grpc.reflection.v1 (and v1alpha).ServerReflection, whose messages are the
// same: what grpcurl and its like ask to learn the service without its .proto.
//
// gRPC's own implementation gives every open stream a thread of the synchronous
// pool; a few dozen streams stop every other synchronous method.
bool IsReflection(std::string_view path);
SmallMethod Reflection();

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_SERVER_INFO_H_
