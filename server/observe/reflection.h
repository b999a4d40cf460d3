// grpc.reflection.v1 (and v1alpha).ServerReflection: what grpcurl and its like
// ask to learn the service without its .proto.
//
// gRPC's own implementation gives every open stream a thread of the synchronous
// pool; a few dozen streams stop every other synchronous method.
#ifndef QUANTD_SERVER_OBSERVE_REFLECTION_H_
#define QUANTD_SERVER_OBSERVE_REFLECTION_H_

#include <string_view>

#include "server/calls/small_call.h"

namespace quantd {

// Whether `path` is the method of either version; their messages are the same.
bool IsReflection(std::string_view path);
SmallMethod Reflection();

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_REFLECTION_H_
