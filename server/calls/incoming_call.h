// One call, as gRPC brings it: its headers, its stream, and the end of both.
//
// Every call arrives before anything of its message is read, whatever its
// method: unknown ones, too. So nothing is buffered that was not asked for, and
// no method has threads of its own that could be taken up.
//
// What a method does is a CallHandler's affair. Each pending event (a tag, a
// place in a queue) holds a reference to the call; the last one frees it and
// its handler.
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

// What one method does with a call. Made when its headers are here; destroyed
// with the call.
class CallHandler {
 public:
  virtual ~CallHandler() = default;
  virtual void Begin() = 0;
  // What was asked of the call is over, well or not.
  virtual void OnRead(bool ok) { (void)ok; }
  virtual void OnWritten(bool ok) { (void)ok; }
  virtual void OnFinished(bool ok) { (void)ok; }
  // The client has cancelled the call, or is gone. Comes once at most, at any
  // time.
  virtual void OnCancelled() {}
  // Every so often, on a thread of the registry's: for limits of time.
  virtual void OnWatch(absl::Time now) { (void)now; }
};

// The code that answers a call. Never null: a method that nobody knows has a
// handler that says so. In server/calls/dispatch.cc, which knows all handlers.
std::unique_ptr<CallHandler> MakeHandler(CallEnvironment* env,
                                         IncomingCall* call);

class IncomingCall final : public WatchedCall {
 public:
  // Waits for one call of a method with payloads, or, without one, of any other
  // method, which arrives and has its events in one queue. Owns itself. A call
  // that arrives arms its successor.
  static void Arm(CallEnvironment* env, std::optional<wire::Method> method,
                  CallQueue queue);
  IncomingCall(const IncomingCall&) = delete;

  std::optional<wire::Method> payload_method() const { return method_; }
  // "/package.Service/Method".
  std::string path() const;
  grpc::ServerContext& context() { return context_; }
  // The metadata of that key; nothing where it came more than once, so that
  // nobody takes the one and somebody else the other.
  std::optional<std::string_view> Metadata(const char* key) const;
  // Null: nobody is known by name.
  const std::shared_ptr<const Caller>& caller() const { return caller_; }
  std::string identity() const { return caller_ ? caller_->identity : ""; }
  void SetCaller(std::shared_ptr<const Caller> caller) {
    caller_ = std::move(caller);
  }
  // The trace that the caller says it belongs to.
  std::optional<wire::TraceContext> trace() const;
  // The queue of its events.
  grpc::ServerCompletionQueue* queue() const { return queue_.events; }
  const std::shared_ptr<Connection>& connection() const { return connection_; }
  absl::Time deadline() const { return deadline_; }
  bool cancelled() const { return cancelled_; }
  bool answered() const { return answered_; }

  // One read at a time, and one write.
  void Read(grpc::ByteBuffer* into) {
    Ref();
    stream_.Read(into, &read_tag_);
  }
  void Write(const grpc::ByteBuffer& message) {
    Ref();
    stream_.Write(message, &written_tag_);
  }
  // Says how the call ends. Only the first answer is sent; false: there was
  // one.
  bool ClaimAnswer() { return !answered_.exchange(true); }
  // After ClaimAnswer, once.
  void Finish(const grpc::Status& status) {
    Ref();
    stream_.Finish(status, &finished_tag_);
  }
  void WriteAndFinish(const grpc::ByteBuffer& message,
                      std::string_view request_id);
  // Finish, with the trailers of a failure.
  void FinishWith(const Failure& failure, std::string_view request_id);
  void Cancel() { context_.TryCancel(); }
  // Runs `work` on the PlanningThread while the call lives.
  void Plan(std::function<void()> work);

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
  // Puts the id into a trailer; an empty one: the call has none.
  void NameIt(std::string_view request_id) {
    if (request_id.empty()) return;
    context_.AddTrailingMetadata(wire::kRequestIdKey, std::string(request_id));
  }

  CallEnvironment* const env_;
  const std::optional<wire::Method> method_;
  const CallQueue queue_;
  std::atomic<int> refs_{2};  // arrived, done
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
  // Two queues' threads may deliver its arrival and its end at once: whichever
  // comes second tells the handler of a client that has left.
  std::atomic<bool> begun_or_left_{false};
  bool watched_ = false;  // the registry holds it
  absl::Time deadline_ = absl::InfiniteFuture();
  std::shared_ptr<Connection> connection_;
  std::shared_ptr<const Caller> caller_;
  std::unique_ptr<CallHandler> handler_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_INCOMING_CALL_H_
