// A server's description of itself: the reply of GetServerInfo, and reflection.
#ifndef QUANTD_SERVER_OBSERVE_SERVER_INFO_H_
#define QUANTD_SERVER_OBSERVE_SERVER_INFO_H_

#include <string_view>

#include "kernels/device/engine.h"
#include "quantd.pb.h"
#include "server/calls/small_method.h"

namespace quantd {

v1::GetServerInfoReply ServerInfoOf(const Engine& engine,
                                    const v1::Limits& limits);

// grpc.reflection.v1.ServerReflection and v1alpha, which has the same messages:
// lets grpcurl and similar tools discover the service without its .proto file.
//
// gRPC's own implementation uses a thread of the synchronous pool for every
// open stream, so a few dozen streams would stop every other synchronous
// method.
bool IsReflection(std::string_view path);
SmallMethod Reflection();

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_SERVER_INFO_H_
