// grpc.reflection.v1 (and v1alpha).ServerReflection: what grpcurl and its like
// ask to learn the service without its .proto.
//
// gRPC's own implementation gives every open stream a thread of the synchronous
// pool; a few dozen streams stop every other synchronous method.
#ifndef QUANTD_SERVER_OBSERVE_REFLECTION_H_
#define QUANTD_SERVER_OBSERVE_REFLECTION_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "server/calls/call_environment.h"
#include "server/calls/incoming_call.h"

namespace quantd {

// Whether `path` is the method of either version; their messages are the same.
bool IsReflection(std::string_view path);
std::unique_ptr<CallHandler> MakeReflectionHandler(CallEnvironment* env,
                                                   IncomingCall* call);

// The serialized ServerReflectionResponse to a serialized request; empty for
// what is no request.
std::string AnswerReflection(absl::Span<const std::string_view> request);

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_REFLECTION_H_
