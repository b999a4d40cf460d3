// A call of a small method, see small_method.h.
#include <atomic>
#include <utility>

#include "proto/net/received_message.h"
#include "server/calls/call_environment.h"
#include "server/calls/small_method.h"
#include "server/config/sizing.h"

namespace quantd {
namespace {

class SmallCall final : public CallHandler {
 public:
  SmallCall(CallEnvironment* env, IncomingCall* call, SmallMethod method)
      : env_(env), call_(call), method_(std::move(method)) {
    record_.arrived = CallRecord::Clock::now();
    if (!method_.method) return;
    record_.method = *method_.method;
    record_.id = env_->ids.Next();
    record_.trace = call_->trace();
  }

  ~SmallCall() override {
    if (!method_.method) return;
    record_.ended = CallRecord::Clock::now();
    if (call_->cancelled() && record_.request_bytes == 0) {
      record_.Fail(Failure::Cancelled());
    }
    env_->metrics.Record(record_);
    if (!WouldLog(record_)) return;
    LogCall(record_, call_->connection()->name(), call_->identity(), shape_);
  }

  void Begin() override {
    if (!method_.while_draining && env_->registry.Refuses()) {
      return Fail(Failure::Draining());
    }
    Read();
  }

  void OnRead(bool ok) override {
    waits_since_ = 0;
    if (!ok && method_.after == SmallMethod::kNextRequest) {
      if (call_->ClaimAnswer()) call_->Finish(grpc::Status::OK);
      return;
    }
    if (!ok) return Fail(Failure::NoMessage());
    record_.request_bytes = message_.size();
    lease_.HoldReceiving(ReceiveNeed(message_.size()));
    if (message_.size() > method_.max_request) {
      return Fail(Failure::TooLarge(message_.size(), method_.max_request));
    }
    if (!method_.plans_apart) return Answer();
    call_->RunOnPlanningThread([this] { Answer(); });
  }

  void OnWritten(bool ok) override {
    waits_since_ = 0;
    lease_.Reset();
    if (!ok || call_->answered()) return;
    if (method_.after == SmallMethod::kNextRequest) return Read();
    told_all_ = true;
  }

  void OnFinished(bool) override { waits_since_ = 0; }

  void OnWatch(absl::Time now) override {
    if (told_all_ && !call_->cancelled()) {
      SmallAnswer answer = method_.answer({}, record_.id);
      if (answer.reply == told_) return;
      told_all_ = false;
      return Tell(std::move(answer.reply));
    }
    const int64_t since = waits_since_;
    if (since == 0) return;
    const absl::Duration waited = now - absl::FromUnixNanos(since);
    if (call_->answered()) {
      if (waited > env_->options.max_send) call_->Cancel();
      return;
    }
    const bool too_long = came_.Look(*call_->connection()) >
                          method_.max_request + env_->shares.window;
    if (waited <= env_->options.max_receive && !too_long) return;
    // A call must not be finished while a write is pending.
    if (method_.after != SmallMethod::kEnd) return call_->Cancel();
    if (too_long) {
      return Fail(
          Failure::TooLarge(method_.max_request + 1, method_.max_request));
    }
    Fail(
        Failure::Deadline("for receiving: the request did not arrive within "
                          "the server's limit"));
  }

 private:
  void Read() {
    lease_ = env_->gate->Track(ReceiveNeed(0), call_->connection()->host());
    came_.Begin(*call_->connection());
    WaitsFromNow();
    call_->Read(message_.buffer());
  }

  void Answer() {
    SmallAnswer answer = method_.answer(message_.Pieces(), record_.id);
    message_.Clear();
    shape_ = std::move(answer.shape);
    if (answer.failure) return Fail(*answer.failure);
    if (method_.after != SmallMethod::kEnd) {
      lease_.HoldReceiving(ReceiveNeed(answer.reply.size()));
      return Tell(std::move(answer.reply));
    }
    if (!call_->ClaimAnswer()) return;
    record_.code = grpc::StatusCode::OK;
    record_.reply_bytes = answer.reply.size();
    lease_.HoldReceiving(ReceiveNeed(answer.reply.size()));
    WaitsFromNow();
    const grpc::Slice slice(answer.reply);
    call_->WriteAndFinish(grpc::ByteBuffer(&slice, 1), record_.id);
  }

  void Tell(std::string reply) {
    told_ = std::move(reply);
    WaitsFromNow();
    const grpc::Slice slice(told_);
    call_->Write(grpc::ByteBuffer(&slice, 1));
  }

  void WaitsFromNow() { waits_since_ = absl::ToUnixNanos(env_->options.now()); }
  void Fail(const Failure& failure) {
    if (!call_->ClaimAnswer()) return;
    record_.Fail(failure);
    record_.error = failure.message;
    call_->FinishWith(failure, record_.id);
  }

  CallEnvironment* const env_;
  IncomingCall* const call_;
  const SmallMethod method_;
  // Unix time since when it has waited for the network; 0: it does not wait.
  std::atomic<int64_t> waits_since_{0};
  AloneCount came_;                    // of the message being read
  std::atomic<bool> told_all_{false};  // it waits for a change
  std::string told_;
  Lease lease_;
  ReceivedMessage message_;
  std::string shape_;
  CallRecord record_;
};

}  // namespace

std::unique_ptr<CallHandler> MakeSmallCall(CallEnvironment* env,
                                           IncomingCall* call,
                                           SmallMethod method) {
  return std::make_unique<SmallCall>(env, call, std::move(method));
}

}  // namespace quantd
