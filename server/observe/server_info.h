// Answers that need no device and no payload: what this server is, can do and
// allows, and what a request would return.
#ifndef QUANTD_SERVER_OBSERVE_SERVER_INFO_H_
#define QUANTD_SERVER_OBSERVE_SERVER_INFO_H_

#include <string_view>

#include "kernels/device/engine.h"
#include "proto/wire.h"
#include "quantd.pb.h"
#include "server/calls/small_method.h"

namespace quantd {

// What the server is and can do. `engine` must outlive the method.
SmallMethod GetServerInfo(const Engine& engine, const v1::Limits& limits);
// What a request would return.
SmallMethod DescribeQuantize(const wire::RequestDefaults& defaults);

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
