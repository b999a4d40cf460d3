#include "server/calls/incoming_call.h"

#include <grpc/support/time.h>

#include <iterator>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "server/calls/call_environment.h"

namespace quantd {

void IncomingCall::Arm(CallEnvironment* env, std::optional<wire::Method> method,
                       CallQueue queue) {
  IncomingCall* call = new IncomingCall(env, method, queue);
  // Must come first, or a call cancelled early would get no event.
  call->context_.AsyncNotifyWhenDone(&call->done_tag_);
  if (method) {
    env->tensors.RequestAsyncBidiStreaming(
        static_cast<int>(wire::Index(*method)), &call->context_, &call->stream_,
        queue.events, queue.arrivals, &call->arrived_tag_);
  } else {
    env->others.RequestCall(&call->context_, &call->stream_, queue.events,
                            queue.arrivals, &call->arrived_tag_);
  }
}

IncomingCall::IncomingCall(CallEnvironment* env,
                           std::optional<wire::Method> method, CallQueue queue)
    : env_(env), method_(method), queue_(queue), stream_(&context_) {
  env_->registry.Created();
}

IncomingCall::~IncomingCall() {
  // The watch must end before any member is destroyed.
  if (watched_) env_->registry.Leave(this);
  handler_.reset();
  if (connection_ == nullptr) return;
  if (queue_.users != nullptr) queue_.users->Leave();
  connection_->CallEnds();
}

std::string IncomingCall::path() const {
  return method_ ? wire::SpecOf(*method_).path : context_.method();
}

std::optional<std::string_view> IncomingCall::Metadata(const char* key) const {
  const auto [first, last] = context_.client_metadata().equal_range(key);
  if (first == last || std::next(first) != last) return std::nullopt;
  return std::string_view(first->second.data(), first->second.size());
}

std::optional<wire::TraceContext> IncomingCall::trace() const {
  const auto text = Metadata(wire::kTraceparentKey);
  return text ? wire::ParseTraceparent(*text) : std::nullopt;
}

bool IncomingCall::TryRef() {
  int refs = refs_.load(std::memory_order_relaxed);
  while (refs != 0) {
    if (refs_.compare_exchange_weak(refs, refs + 1,
                                    std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

void IncomingCall::Unref() {
  if (refs_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  CallRegistry* const registry = &env_->registry;
  delete this;
  // Must come after the last use of anything that a shutdown destroys.
  registry->Destroyed();
}

void IncomingCall::OnArrived(bool ok) {
  if (!ok) {  // the server is shutting down, so the done tag will not come
    Unref();
    Unref();
    return;
  }
  Arm(env_, method_, queue_);
  const gpr_timespec deadline = context_.raw_deadline();
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) != 0) {
    // Computed as time left, since the clocks of gRPC and absl differ for up to
    // two seconds after a step of the wall clock. Computed in gRPC's type,
    // since the longest timeouts overflow as nanoseconds since 1970.
    const gpr_timespec left =
        gpr_time_sub(deadline, gpr_now(deadline.clock_type));
    deadline_ = env_->options.now() + absl::Seconds(left.tv_sec) +
                absl::Nanoseconds(left.tv_nsec);
  }
  if (queue_.users != nullptr) queue_.users->Enter();
  connection_ = env_->acceptor->Find(context_.peer());
  connection_->CallBegins();
  handler_ = MakeHandler(env_, this);
  env_->registry.Watch(this);
  watched_ = true;
  handler_->Begin();
  if (begun_or_left_.exchange(true)) handler_->OnCancelled();
  Unref();
}

void IncomingCall::OnDone(bool) {
  if (context_.IsCancelled()) {
    cancelled_ = true;
    if (begun_or_left_.exchange(true)) handler_->OnCancelled();
  }
  Unref();
}

void IncomingCall::WriteAndFinish(const grpc::ByteBuffer& message,
                                  std::string_view request_id) {
  NameIt(request_id);
  Ref();
  stream_.WriteAndFinish(message, grpc::WriteOptions(), grpc::Status::OK,
                         &finished_tag_);
}

void IncomingCall::FinishWith(const Failure& failure,
                              std::string_view request_id) {
  NameIt(request_id);
  if (failure.detail.retry_delay_ms() != 0) {
    context_.AddTrailingMetadata(
        wire::kPushbackKey, fmt::to_string(failure.detail.retry_delay_ms()));
  }
  Finish(failure.ToStatus());
}

void IncomingCall::RunOnPlanningThread(std::function<void()> work) {
  Ref();
  env_->planning.Submit([this, work = std::move(work)] {
    work();
    Unref();
  });
}

}  // namespace quantd
