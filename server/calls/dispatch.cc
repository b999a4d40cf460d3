// Maps each method to its handler.
#include <string>
#include <utility>

#include "proto/methods.h"
#include "server/calls/call.h"
#include "server/calls/call_environment.h"
#include "server/calls/small_method.h"

namespace quantd {
namespace {

// Answers a call with an error as soon as its headers are here. Its message is
// never read.
struct Refusal final : CallHandler {
  Refusal(IncomingCall* c, Failure f) : call(c), failure(std::move(f)) {}
  void Begin() override {
    if (call->ClaimAnswer()) call->FinishWith(failure, "");
  }

  IncomingCall* const call;
  const Failure failure;
};

}  // namespace

std::unique_ptr<CallHandler> MakeHandler(CallEnvironment* env,
                                         IncomingCall* call) {
  // A peer that has not yet acknowledged the HTTP/2 settings may open more
  // streams than they allow. A peer that has done so may open a stream before
  // the server has freed the one that it replaces, so up to twice the limit is
  // accepted. Connections over a unix socket cannot be told apart.
  Connection& connection = *call->connection();
  if (connection.calls() > 2 * env->options.max_streams &&
      connection.countable()) {
    return std::make_unique<Refusal>(
        call, Failure::Busy(env->gate->RetryAfter(env->options.now())));
  }
  const std::string path = call->path();
  Verdict verdict =
      env->credentials->Judge(path, call->context(), connection.name());
  if (verdict.failure) {
    return std::make_unique<Refusal>(call, *std::move(verdict.failure));
  }
  call->SetCaller(std::move(verdict.caller));
  if (const auto method = call->payload_method()) {
    return std::make_unique<Call>(env, call, *method);
  }
  const auto small = [&](SmallMethod method) {
    return MakeSmallCall(env, call, std::move(method));
  };
  // Methods with payloads arrive through their own service.
  const wire::MethodSpec* const ours = wire::FindMethod(path);
  if (ours != nullptr && ours->method == wire::Method::kGetServerInfo) {
    return small(GetServerInfo(env->engine, env->limits));
  }
  if (ours != nullptr && ours->method == wire::Method::kDescribeQuantize) {
    return small(DescribeQuantize(env->defaults));
  }
  if (path == "/grpc.health.v1.Health/Check") {
    return small(env->health.Check());
  }
  if (path == "/grpc.health.v1.Health/Watch") {
    return small(env->health.Watch(connection));
  }
  if (IsReflection(path)) return small(Reflection());
  return std::make_unique<Refusal>(
      call, Failure::Of(grpc::StatusCode::UNIMPLEMENTED,
                        "this server has no such method"));
}

}  // namespace quantd
