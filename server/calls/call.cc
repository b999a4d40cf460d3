#include "server/calls/call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/device/budget.h"
#include "quantd/field_error.h"
#include "server/config/sizing.h"

namespace quantd {
Call::Call(CallEnvironment* env, IncomingCall* call, wire::Method method)
    : env_(env), call_(call), method_(method) {
  record_.method = method;  // kStream until the first message is parsed
  record_.streamed = streams();
  record_.arrived = Clock::now();
  record_.id = env_->ids.Next();
  record_.trace = call_->trace();
  payload_ = MakePayload(env, method);
  if (!streams()) env_->lone.CallArrives(record_.arrived);
}

Call::~Call() {
  LetGo();
  RecordEnd();
  Release();
}

void Call::Admit() {
  const size_t limit = streams() ? wire::kMaxRequestHeadBytes
                                 : env_->request_limit[wire::Index(method_)];
  if (auto failure = ReadDeclared(limit)) return Fail(*failure);
  if (auto failure = Stopped("on arrival")) return Fail(*failure);
  if (!env_->monitor->takes_work()) {
    return Fail(Failure::NoDevice(env_->monitor->RetryDelay()));
  }
  // A request of unknown size reserves one flow-control window, which the watch
  // lets grow. If the connection's bytes cannot be counted, it reserves the
  // largest request.
  const bool counted = streams() || call_->connection()->countable();
  const size_t first = declared_.value_or(
      counted ? std::min(env_->shares.window, limit) : limit);
  Gate::Ask ask;
  ask.bytes = ReceiveNeed(first);
  if (auto failure = ReadAsk(&ask)) return Fail(*failure);
  most_ = declared_.value_or(limit);
  call_->Ref();
  OnGateAnswer(env_->gate->AdmitMessage(ask, Now(), this, &lease_));
}

std::optional<Failure> Call::ReadDeclared(size_t limit) {
  const auto text = call_->Metadata(wire::kRequestBytesKey);
  if (!text || streams()) return std::nullopt;
  uint64_t bytes = 0;
  if (!absl::SimpleAtoi(std::string(*text), &bytes)) {
    return Failure::BadRequest(FieldError(
        wire::kRequestBytesKey, "a decimal number", "something else"));
  }
  if (bytes > limit) return Failure::TooLarge(bytes, limit);
  declared_ = bytes;
  return std::nullopt;
}

std::optional<Failure> Call::ReadAsk(Gate::Ask* ask) {
  const auto& caller = call_->caller();
  const Connection& connection = *call_->connection();
  if (caller != nullptr && !caller->identity.empty()) {
    ask->identity = caller->identity;
  } else if (!env_->speaks_for_many(connection.host())) {
    // Callers behind one address are told apart by connection.
    ask->identity = connection.name();
  }
  ask->deadline = call_->deadline();
  if (const auto text = call_->Metadata(wire::kPriorityKey)) {
    const auto priority = ParsePriority(*text);
    if (!priority) {
      return Failure::BadRequest(FieldError(
          wire::kPriorityKey, "high, normal or low", "something else"));
    }
    // Without tokens nobody is granted high priority.
    const bool may = caller != nullptr && caller->may_be_high;
    ask->priority =
        may || *priority != Priority::kHigh ? *priority : Priority::kNormal;
  }
  return std::nullopt;
}

void Call::OnGateAnswer(Gate::Answer answer) {
  if (answer.outcome != Outcome::kWaiting) {
    return GoOn(answer.outcome, answer.retry_after, false);
  }
  // A cancellation that came just before the call was queued could not remove
  // it from the queue.
  if (call_->cancelled()) LeaveQueues();
}

void Call::OnAdmitted(Outcome outcome, Lease lease) {
  lease_ = std::move(lease);
  on_network_ = false;
  GoOn(outcome, env_->gate->RetryAfter(Now()), true);
}

void Call::GoOn(Outcome outcome, absl::Duration retry_after, bool waited) {
  const Stage asked = stage();
  if (outcome != Outcome::kGranted) {
    Fail(Refusal(outcome, retry_after));
  } else if (asked == Stage::kClaiming) {
    AwaitSlot();
  } else if (asked == Stage::kAdmitting) {
    record_.admitted = Clock::now();
    if (auto failure = Stopped("while waiting for memory")) {
      Fail(*failure);
    } else {
      Receive(Stage::kReceiving, {});
    }
  } else if (waited) {
    call_->RunOnPlanningThread([this] { PlanRequest(); });
  } else {
    PlanRequest();
  }
  call_->Unref();
}

// Under the lock, so that the watch cannot end the call before it reads.
void Call::Receive(Stage stage, Payload::Expected expected) {
  message_.Clear();
  absl::MutexLock lock(&mutex_);
  if (stage == Stage::kFeeding) {
    most_ = expected.most;
    lease_.HoldReceiving(expected.first == 0 ? 0 : ReceiveNeed(expected.first));
  }
  if (!declared_) received_before_ = call_->connection()->Received();
  // The time limit runs over all chunks of a stream.
  if (stage_ != Stage::kTaking) since_ = moved_ = Now();
  stage_ = stage;
  call_->Read(message_.buffer());
}

Call::Stage Call::LeaveClient() {
  absl::MutexLock lock(&mutex_);
  if (stage_ == Stage::kTelling) return std::exchange(stage_, Stage::kPlanning);
  if (stage_ != Stage::kReceiving && stage_ != Stage::kFeeding) return stage_;
  return std::exchange(stage_, Stage::kTaking);
}

void Call::OnRead(bool ok) {
  const Stage stage = LeaveClient();
  if (stage == Stage::kClosing) return LetGo();
  stage == Stage::kReceiving ? OnRequest(ok) : OnMessage(ok);
}

void Call::OnRequest(bool ok) {
  if (!ok) {
    auto failure = Stopped("while receiving");
    return Fail(failure ? *failure : Failure::NoMessage());
  }
  const size_t size = message_.size();
  record_.request_bytes = size;
  if (declared_ && size > *declared_) {
    return Fail(Failure::LongerThanDeclared(size, *declared_));
  }
  if (size > most_) return Fail(Failure::TooLarge(size, most_));
  if (auto failure = Stopped("while receiving")) return Fail(*failure);
  if (streams()) {
    // Chunks that are not read yet fill the window.
    lease_.HoldReceiving(ReceiveNeed(size + env_->shares.window));
  } else {
    record_.received = Clock::now();
    lease_.Arrived(ReceiveNeed(size), size, Now());
  }
  if (wire::HasShortHead(message_.Pieces())) {
    on_network_ = true;
    return PlanRequest();
  }
  call_->RunOnPlanningThread([this] { CountLists(); });
}

void Call::CountLists() {
  const auto separated = wire::SeparateRequest(method_, message_.Pieces());
  if (!separated.ok()) return Fail(Failure::BadRequest(separated.status()));
  Enter(Stage::kCounting);
  call_->Ref();
  OnGateAnswer(env_->gate->AdmitHead(
      HeadNeed(separated->head.size(), separated->list_bytes),
      call_->deadline(), Now(), this, &lease_));
}

void Call::PlanRequest() {
  Enter(Stage::kPlanning);
  absl::Status status = payload_->Parse(message_.Pieces());
  if (!status.ok()) return Fail(Failure::BadRequest(status));
  const wire::Request& request = payload_->request();
  if (streams()) {
    record_.method = wire::MethodOf(*request.plan);
    const auto& caller = call_->caller();
    if (caller != nullptr && !caller->May(record_.method)) {
      return Fail(env_->credentials->Forbid(record_.method, *caller,
                                            call_->connection()->name()));
    }
    message_.Clear();
    lease_.HoldReceiving(ReceiveNeed(env_->shares.window));
  }
  const size_t most = env_->shares.per_device;
  status = CheckPayload(payload_->Need(), most);
  if (status.ok()) {
    // The whole payload must fit, even if little of it is used.
    status = CheckMemory("payload_bytes", "split the tensor",
                         payload_->bytes_to_come(), most);
  }
  if (!status.ok()) return Fail(Failure::BadRequest(status));
  device_ = env_->engine.Find(payload_->places().device());
  if (payload_->places().wait_event() == nullptr) return Claim();
  AwaitEvent();
}

// Holds neither a slot nor payload memory: the client's event may take long, or
// never come. It is polled, because a GPU stream that waits for it could not be
// stopped.
void Call::AwaitEvent() {
  // Most events pass within this time, and no other thread needs to be woken.
  constexpr std::chrono::microseconds kLook{50};
  Enter(Stage::kWaiting);
  const auto end = Clock::now() + kLook;
  do {
    if (payload_->places().wait_event()->Passed()) return Claim();
  } while (Clock::now() < end);
  on_network_ = false;
  wait_until_ = Now() + env_->options.max_receive;
  call_->Ref();  // for PollEvent
  env_->events.Submit([this] { PollEvent(); });
}

void Call::PollEvent() {
  const bool passed = payload_->places().wait_event()->Passed();
  const auto failure = Stopped("while waiting for an event");
  if (!passed && !failure && Now() < wait_until_) {
    return env_->events.SubmitLater([this] { PollEvent(); });
  }
  if (failure) {
    Fail(*failure);
  } else if (!passed) {
    Fail(Failure::Deadline(
        "for memory.wait_event: it did not pass within the server's limit"));
  } else {
    Claim();
  }
  call_->Unref();
}

void Call::Claim() {
  Enter(Stage::kClaiming);
  call_->Ref();
  OnGateAnswer(env_->gate->AdmitJob(payload_->Need(), device_, streams(),
                                    call_->deadline(), Now(), this, &lease_));
}

std::optional<Failure> Call::Stopped(std::string_view where) const {
  if (Now() >= call_->deadline()) return Failure::Deadline(where);
  if (call_->cancelled() || call_->answered()) return Failure::Cancelled();
  return std::nullopt;
}

Failure Call::Refusal(Outcome outcome, absl::Duration retry_after) const {
  if (outcome == Outcome::kStopped) return Failure::Draining();
  if (outcome == Outcome::kNoDevice) {
    return Failure::NoDevice(env_->monitor->RetryDelay());
  }
  if (auto failure = Stopped("while waiting for memory")) return *failure;
  return outcome == Outcome::kTooLate ? Failure::TooLate(retry_after)
                                      : Failure::Busy(retry_after);
}

void Call::Fail(const Failure& failure) {
  LetGo();
  if (!call_->ClaimAnswer()) return;
  if (record_.error.empty()) record_.error = failure.message;
  absl::MutexLock lock(&mutex_);
  Close(failure);
}

void Call::Close(const Failure& failure) {
  stage_ = Stage::kClosing;
  since_ = Now();
  record_.Fail(failure);
  call_->FinishWith(failure, record_.id);
}

// A block must return to its pool before its lease returns to the gate.
void Call::LetGo() {
  if (payload_ != nullptr) payload_->DropJob();
  message_.Clear();
  lease_.Reset();
}

void Call::LeaveQueues() {
  if (env_->gate->Forget(this)) {
    Fail(Refusal(Outcome::kBusy, env_->gate->RetryAfter(Now())));
    return call_->Unref();
  }
  const int device = queued_on_;
  if (device >= 0 && env_->engine.Withdraw(device, this)) {
    Fail(*Stopped("while waiting for a device"));
    call_->Unref();
  }
}

void Call::RecordEnd() {
  record_.ended = Clock::now();
  // If the client has gone, the call counts as cancelled. Any other failure,
  // usually a message that never came, is a consequence.
  if (call_->cancelled() && record_.code != grpc::StatusCode::OK &&
      record_.code != grpc::StatusCode::DEADLINE_EXCEEDED &&
      (record_.request_bytes == 0 || ended_early_)) {
    record_.Fail(Failure::Cancelled());
    record_.error = "the connection was lost or the call cancelled";
  }
  env_->metrics.Record(record_);
  if (!WouldLog(record_)) return;
  LogCall(record_, call_->connection()->name(), call_->identity(),
          shape_.empty() ? Shape() : shape_);
}

std::string Call::Shape() const {
  if (payload_ == nullptr || payload_->request().plan == nullptr) return "";
  return fmt::format("{}",
                     fmt::join(payload_->request().plan->tensor().shape, "x"));
}

}  // namespace quantd
