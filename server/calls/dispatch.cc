// Maps each method to its handler.
#include <string>
#include <utility>

#include "proto/answers.h"
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

// A method of quantd.v1.Quantd without a payload.
SmallMethod OurMethod(const wire::Facts& facts, wire::Method ours) {
  SmallMethod method(ours);
  method.answer = [&facts, ours](absl::Span<const std::string_view> message,
                                 std::string_view request_id) {
    auto made = wire::AnswerRequest(ours, message, facts, request_id);
    SmallAnswer answer;
    if (made.ok()) {
      answer.reply = std::move(made->reply);
      answer.shape = std::move(made->shape);
    } else {
      answer.failure = Failure::BadRequest(made.status());
    }
    return answer;
  };
  return method;
}

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
  if (const wire::MethodSpec* const ours = wire::FindMethod(path)) {
    return small(OurMethod(env->facts, ours->method));
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
