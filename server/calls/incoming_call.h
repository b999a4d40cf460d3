// One call as gRPC delivers it: its headers, its stream, and the end of both.
//
// Every call of any method, unknown ones too, arrives before its message is
// read. So nothing is buffered that was not asked for, and no method has
// threads of its own that could be used up.
//
// A CallHandler does what the method asks. Each pending event (a tag, a place
// in a queue) holds a reference to the call; the last one frees it and its
// handler.
#ifndef QUANTD_SERVER_CALLS_INCOMING_CALL_H_
#define QUANTD_SERVER_CALLS_INCOMING_CALL_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/time/time.h"
#include "proto/methods.h"
#include "proto/net/trace_context.h"
#include "server/calls/call_registry.h"
#include "server/calls/failure.h"
#include "server/gate/caller.h"
#include "server/net/call_queue.h"
#include "server/net/connection.h"

namespace quantd {

struct CallEnvironment;
class IncomingCall;

// What one method does with a call. Created when the headers have arrived;
// destroyed with the call.
class CallHandler {
 public:
  virtual ~CallHandler() = default;
  virtual void Begin() = 0;
  // Report that a read, a write or the finish that was started is over.
  virtual void OnRead(bool ok) { (void)ok; }
  virtual void OnWritten(bool ok) { (void)ok; }
  virtual void OnFinished(bool ok) { (void)ok; }
  // The client has cancelled the call or is gone. Called at most once, at any
  // time.
  virtual void OnCancelled() {}
  // Called periodically on the registry's thread, to enforce time limits.
  virtual void OnWatch(absl::Time now) { (void)now; }
};

// Returns the handler of a call, never null: an unknown method gets one that
// says so. Defined in server/calls/dispatch.cc, which knows all handlers.
std::unique_ptr<CallHandler> MakeHandler(CallEnvironment* env,
                                         IncomingCall* call);

class IncomingCall final : public WatchedCall {
 public:
  // Waits for one call of `method`, or, if nullopt, of any method without a
  // payload. The call arrives and has its events in `queue`. It owns itself,
  // and arms a successor when it arrives.
  static void Arm(CallEnvironment* env, std::optional<wire::Method> method,
                  CallQueue queue);
  IncomingCall(const IncomingCall&) = delete;

  std::optional<wire::Method> payload_method() const { return method_; }
  // "/package.Service/Method".
  std::string path() const;
  grpc::ServerContext& context() { return context_; }
  // The value of that metadata key. nullopt if it was sent more than once:
  // readers could disagree about which counts.
  std::optional<std::string_view> Metadata(const char* key) const;
  // Null if the caller has no identity.
  const std::shared_ptr<const Caller>& caller() const { return caller_; }
  std::string identity() const { return caller_ ? caller_->identity : ""; }
  void SetCaller(std::shared_ptr<const Caller> caller) {
    caller_ = std::move(caller);
  }
  // The trace that the caller named.
  std::optional<wire::TraceContext> trace() const;
  // The queue that delivers its events.
  grpc::ServerCompletionQueue* queue() const { return queue_.events; }
  const std::shared_ptr<Connection>& connection() const { return connection_; }
  absl::Time deadline() const { return deadline_; }
  bool cancelled() const { return cancelled_; }
  bool answered() const { return answered_; }

  // At most one read and one write may be pending.
  void Read(grpc::ByteBuffer* into) {
    Ref();
    stream_.Read(into, &read_tag_);
  }
  void Write(const grpc::ByteBuffer& message) {
    Ref();
    stream_.Write(message, &written_tag_);
  }
  // Claims the right to end the call. Returns false if it was already claimed:
  // only the first answer is sent.
  bool ClaimAnswer() { return !answered_.exchange(true); }
  // Must follow ClaimAnswer, once.
  void Finish(const grpc::Status& status) {
    Ref();
    stream_.Finish(status, &finished_tag_);
  }
  void WriteAndFinish(const grpc::ByteBuffer& message,
                      std::string_view request_id);
  // Finishes with the failure's status and trailers.
  void FinishWith(const Failure& failure, std::string_view request_id);
  void Cancel() { context_.TryCancel(); }
  // The call lives until `work` returns.
  void RunOnPlanningThread(std::function<void()> work);

  void Ref() { refs_.fetch_add(1, std::memory_order_relaxed); }
  bool TryRef() override;
  void Unref() override;
  void Watch(absl::Time now) override { handler_->OnWatch(now); }

 private:
  IncomingCall(CallEnvironment* env, std::optional<wire::Method> method,
               CallQueue queue);
  ~IncomingCall();
  void OnArrived(bool ok);
  void OnDone(bool ok);
  // Adds the id to the trailers unless it is empty.
  void NameIt(std::string_view request_id) {
    if (request_id.empty()) return;
    context_.AddTrailingMetadata(wire::kRequestIdKey, std::string(request_id));
  }

  CallEnvironment* const env_;
  const std::optional<wire::Method> method_;
  const CallQueue queue_;
  std::atomic<int> refs_{2};  // references of the arrived and done tags
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_;
  CompletionTag arrived_tag_{[this](bool ok) { OnArrived(ok); }};
  CompletionTag Tells(void (CallHandler::*what)(bool ok)) {
    return {[this, what](bool ok) {
      (*handler_.*what)(ok);
      Unref();
    }};
  }
  CompletionTag read_tag_ = Tells(&CallHandler::OnRead);
  CompletionTag written_tag_ = Tells(&CallHandler::OnWritten);
  CompletionTag finished_tag_ = Tells(&CallHandler::OnFinished);
  CompletionTag done_tag_{[this](bool ok) { OnDone(ok); }};
  std::atomic<bool> answered_{false};
  std::atomic<bool> cancelled_{false};
  // The arrival and the end may be delivered by two queues' threads at once.
  // The second of the two tells the handler that the client has left.
  std::atomic<bool> begun_or_left_{false};
  bool watched_ = false;  // the registry holds it
  absl::Time deadline_ = absl::InfiniteFuture();
  std::shared_ptr<Connection> connection_;
  std::shared_ptr<const Caller> caller_;
  std::unique_ptr<CallHandler> handler_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_INCOMING_CALL_H_
