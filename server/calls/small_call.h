// A method with one small request and one small reply, which is computed at
// once: health, what the server is, what a request would give. Or a stream of
// such requests, or of such replies.
#ifndef QUANTD_SERVER_CALLS_SMALL_CALL_H_
#define QUANTD_SERVER_CALLS_SMALL_CALL_H_

#include <grpcpp/support/status.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "proto/net/received_message.h"
#include "server/calls/call_environment.h"
#include "server/calls/call_record.h"
#include "server/calls/incoming_call.h"
#include "server/gate/lease.h"

namespace quantd {

struct SmallAnswer {
  std::optional<Failure> failure;
  std::string reply;  // serialized
  std::string shape;  // of the tensor it was about, for the log
};

struct SmallMethod {
  // One of another service, whose calls are not recorded.
  SmallMethod() = default;
  explicit SmallMethod(wire::Method ours)
      : max_request(wire::SpecOf(ours).max_request), method(ours) {}

  // What comes after the first reply. The same request is answered again
  // whenever the reply is another one, until the client goes.
  enum After { kEnd, kNextRequest, kNextChange };

  size_t max_request = 4096;  // bytes
  After after = kEnd;
  std::optional<wire::Method> method;
  bool plans_apart = false;    // on the PlanningThread
  bool while_draining = true;  // it is answered while the server drains
  std::function<SmallAnswer(absl::Span<const std::string_view> message,
                            std::string_view request_id)>
      answer;
};

class SmallCall final : public CallHandler {
 public:
  SmallCall(CallEnvironment* env, IncomingCall* call, SmallMethod method);
  ~SmallCall() override;

  void Begin() override;
  void OnRead(bool ok) override;
  void OnWritten(bool ok) override;
  void OnFinished(bool ok) override;
  void OnWatch(absl::Time now) override;

 private:
  void Read();
  void Answer();
  void Tell(std::string reply);
  bool IsTooLong() const;
  void WaitsFromNow() { waits_since_ = absl::ToUnixNanos(env_->now()); }
  void Fail(const Failure& failure);

  CallEnvironment* const env_;
  IncomingCall* const call_;
  const SmallMethod method_;
  // When it began to wait for the network, in Unix time; 0: it does not.
  std::atomic<int64_t> waits_since_{0};
  // What its connection had brought before it was read; nothing: not known.
  std::optional<uint64_t> received_before_;
  std::atomic<bool> told_all_{false};  // and waits for a change
  std::string told_;
  Lease lease_;
  ReceivedMessage message_;
  std::string shape_;
  CallRecord record_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_SMALL_CALL_H_
