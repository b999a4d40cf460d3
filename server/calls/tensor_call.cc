#include "server/calls/tensor_call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/device/budget.h"
#include "kernels/plan/field_error.h"
#include "server/calls/admission.h"
#include "server/calls/call_registry.h"
#include "server/calls/request_ids.h"
#include "server/config/sizing.h"
#include "server/device/device_monitor.h"
#include "server/gate/steady_time.h"
#include "server/net/lone_caller.h"
#include "server/observe/metrics.h"

namespace quantd {
namespace {

// A message that is understood on the network's own thread, if its head is
// short: one longer than this may have come in very many pieces.
constexpr size_t kPlannedAtOnce = 5 << 20;
// A message that nobody declared counts as this until more of it has come.
constexpr size_t kFirstBytes = 48 << 10;

}  // namespace

TensorCall::TensorCall(CallEnvironment* env, IncomingCall* call,
                       wire::Method method)
    : env_(env), call_(call), method_(method) {
  record_.method = method;
  record_.arrived = Clock::now();
  env_->lone->CallArrives(record_.arrived);
  record_.id = env_->ids->Next();
  record_.trace = call_->trace();
}

TensorCall::~TensorCall() {
  LetGo();
  RecordEnd();
  Release();
}

void TensorCall::Release() {
  if (accepted_.exchange(false)) env_->registry->Release();
}

void TensorCall::Begin() {
  accepted_ = env_->registry->Accept();
  if (accepted_) {
    Admit();
  } else {
    Fail(Failure::Draining());
  }
}

void TensorCall::Admit() {
  const size_t limit = env_->request_limit[wire::Index(method_)];
  declared_bytes_ = limit;
  const auto& metadata = call_->context().client_metadata();
  if (const auto it = metadata.find(wire::kRequestBytesKey);
      it != metadata.end()) {
    const std::string text(it->second.data(), it->second.size());
    uint64_t bytes = 0;
    if (!absl::SimpleAtoi(text, &bytes)) {
      return Fail(Failure::BadRequest(FieldError(
          wire::kRequestBytesKey, "a decimal number", "something else")));
    }
    if (bytes > limit) return Fail(Failure::TooLarge("request", bytes, limit));
    declared_ = true;
    declared_bytes_ = bytes;
  }
  if (auto failure = Stopped("on arrival")) return Fail(*failure);
  if (!env_->monitor->takes_work()) {
    env_->ledger->Excuse(*call_->connection());
    return Fail(Failure::NoDevice(env_->monitor->RetryDelay()));
  }
  // Where nobody counts what comes, all that may come must be counted on.
  const bool counted = call_->connection()->countable();
  ask_ = {call_->connection(),
          ReceiveNeed(declared_ || !counted ? declared_bytes_
                                            : std::min(kFirstBytes, limit)),
          ReceiveNeed(declared_bytes_), call_->deadline()};
  if (auto failure =
          quantd::Admit(*env_->quotas, *call_, declared_ ? declared_bytes_ : 0,
                        &ask_, &quota_)) {
    env_->ledger->Excuse(*call_->connection());
    return Fail(*failure);
  }
  call_->Ref();  // for OnMemory
  const auto outcome = env_->ledger->AdmitReceive(ask_, this, &charge_);
  if (outcome == MemoryLedger::Outcome::kWaiting) return Waits();
  if (outcome == MemoryLedger::Outcome::kGranted) {
    Receive();
  } else {
    Fail(Refusal(outcome));
  }
  call_->Unref();
}

void TensorCall::OnMemory(MemoryLedger::Outcome outcome, MemoryCharge charge) {
  charge_ = std::move(charge);
  on_network_ = false;
  if (outcome != MemoryLedger::Outcome::kGranted) {
    Fail(Refusal(outcome));
  } else if (stage_ == Stage::kClaiming) {
    Queue();
  } else if (stage_ == Stage::kCounting) {
    call_->Plan([this] { PlanRequest(); }, true);
  } else {
    Receive();
  }
  call_->Unref();
}

void TensorCall::Revoke(MemoryLedger::Revocation why) {
  revoked_ = why == MemoryLedger::Revocation::kTooLong ? kTooLong : kOthersWait;
}

void TensorCall::Receive() {
  record_.admitted = Clock::now();
  if (auto failure = Stopped("while waiting for memory")) {
    return Fail(*failure);
  }
  call_->Continue();
  receive_since_ = SteadyNow();
  stage_ = Stage::kReceiving;
  call_->Read(message_.buffer());
}

void TensorCall::OnRead(bool ok) {
  stage_ = Stage::kPlanning;
  if (!ok) {
    auto failure = Stopped("while receiving");
    return Fail(failure ? *failure : Failure::NoMessage());
  }
  record_.received = Clock::now();
  record_.request_bytes = message_.size();
  charge_.Arrived(message_.size(), ReceiveNeed(message_.size()));
  if (!declared_) quota_.Pay(message_.size(), SteadyNow());
  if (record_.request_bytes > declared_bytes_) {
    return Fail(declared_ ? Failure::LongerThanDeclared(record_.request_bytes,
                                                        declared_bytes_)
                          : Failure::TooLarge("request", record_.request_bytes,
                                              declared_bytes_));
  }
  if (auto failure = Stopped("while receiving")) return Fail(*failure);
  charge_.Begins(message_.size());
  const bool is_short = wire::HasShortHead(message_.Pieces());
  if (is_short && message_.size() <= kPlannedAtOnce) {
    on_network_ = true;
    return PlanRequest();
  }
  if (is_short) {
    call_->Plan([this] { PlanRequest(); }, false);
  } else {
    call_->Plan([this] { CountLists(); }, true);
  }
}

void TensorCall::CountLists() {
  const auto separated = wire::SeparateRequest(method_, message_.Pieces());
  if (!separated.ok()) return Fail(Failure::BadRequest(separated.status()));
  stage_ = Stage::kCounting;
  call_->Ref();  // for OnMemory
  const auto outcome = env_->ledger->AdmitHead(
      HeadNeed(separated->head.size(), separated->list_bytes),
      call_->deadline(), this, &charge_);
  if (outcome == MemoryLedger::Outcome::kWaiting) return Waits();
  if (outcome == MemoryLedger::Outcome::kGranted) {
    PlanRequest();
  } else {
    Fail(Refusal(outcome));
  }
  call_->Unref();
}

void TensorCall::PlanRequest() {
  auto request = wire::ParseRequest(method_, message_.Pieces(), env_->defaults);
  if (!request.ok()) return Fail(Failure::BadRequest(request.status()));
  request_ = *std::move(request);
  auto places = Places::Find(request_, env_->regions);
  if (!places.ok()) return Fail(Failure::BadRequest(places.status()));
  places_ = *std::move(places);
  device_ = env_->engine->Find(places_.device());
  const auto& limits = env_->ledger->limits().payload;
  const absl::Status fits =
      CheckPayload(PayloadNeed(request_, places_, env_->works_in_place),
                   *std::max_element(limits.begin(), limits.end()));
  if (!fits.ok()) return Fail(Failure::BadRequest(fits));
  if (places_.wait_event() == nullptr) return Claim();
  AwaitEvent();
}

void TensorCall::Claim() {
  stage_ = Stage::kClaiming;
  call_->Ref();  // for OnMemory
  const auto outcome = env_->ledger->AdmitPayload(
      PayloadNeed(request_, places_, env_->works_in_place), device_,
      call_->deadline(), this, &charge_);
  if (outcome == MemoryLedger::Outcome::kWaiting) return Waits();
  if (outcome == MemoryLedger::Outcome::kGranted) {
    Queue();
  } else {
    Fail(Refusal(outcome));
  }
  call_->Unref();
}

void TensorCall::Queue() {
  const int device = charge_.device();
  // A thread of which there is but one, the ledger's above all, must not be
  // where a job hangs.
  if (std::exchange(on_network_, false) && IsQuick(device)) {
    if (auto slot = env_->engine->TrySlot(device)) {
      job_.is_inline = true;
      call_->Ref();
      return RunOn(env_->engine->backend(device), std::move(slot));
    }
  }
  job_.is_inline = false;
  queued_on_ = device;
  stage_ = Stage::kQueued;
  call_->Ref();  // for RunOn
  env_->engine->Submit(device, this);
  Waits();
}

void TensorCall::Waits() {
  // A cancellation that came just before the wait looked in vain for it.
  if (call_->cancelled()) LeaveQueues();
}

void TensorCall::Reply(const JobReport& report, JobOutput output) {
  const size_t size = output.size;
  std::string head = wire::ReplyHead(*request_.plan, report, record_.device,
                                     record_.id, request_.lent.outputs);
  if (!call_->ClaimAnswer()) return;
  record_.shared_input_bytes = places_.input_bytes();
  record_.shared_output_bytes = places_.output_bytes();
  record_.reply_bytes = head.size() + size;
  record_.code = grpc::StatusCode::OK;
  record_.answered = Clock::now();
  // Of many groups the plan is as large as a payload, and a reply may stay
  // unread for long.
  if (WouldLog(record_)) shape_ = Shape();
  places_ = {};
  request_ = {};
  charge_.Served();
  charge_.ShrinkHead(head.size());
  grpc::ByteBuffer reply;
  progress_ = std::make_shared<ReplyProgress>();
  if (size <= kCopiedOutput) {
    if (size != 0) {
      head.append(reinterpret_cast<const char*>(output.data()), size);
    }
    output = {};
    charge_.ShrinkPayload(0);
    const grpc::Slice whole(head);
    reply = grpc::ByteBuffer(&whole, 1);
    // The charge stays until the call is over: an unread reply is memory, too.
    progress_->pieces = 1;
    copied_ = true;
  } else {
    charge_.ShrinkReceive(0);
    reply = MakeReply(head, std::move(output.block), size, std::move(charge_),
                      progress_);
  }
  stage_ = Stage::kReplying;
  call_->WriteAndFinish(reply, record_.id);
}

void TensorCall::OnWatch(absl::Time now) {
  const Stage stage = stage_;
  if (stage == Stage::kReceiving) WatchReceiving(now);
  if (stage == Stage::kRunning) WatchJob();
  if (stage == Stage::kReplying) WatchSending(now);
}

void TensorCall::WatchReceiving(absl::Time now) {
  std::optional<Failure> failure;
  if (revoked_ == kOthersWait) {
    failure = Failure::Busy(env_->ledger->RetryDelay());
  } else if (revoked_ == kTooLong) {
    // How long it would be is not known: it has not ended.
    failure = declared_ ? Failure::LongerThanDeclared(declared_bytes_ + 1,
                                                      declared_bytes_)
                        : Failure::TooLarge("request", declared_bytes_ + 1,
                                            declared_bytes_);
  } else if (now - receive_since_ > env_->max_receive) {
    failure = Failure::Deadline(
        "for receiving: the request did not arrive within the server's limit");
  }
  // The memory goes back when the read, which this ends, comes back.
  if (!failure || !call_->ClaimAnswer()) return;
  // Unless its message has come this very moment; whoever moves it on finds it
  // answered.
  Stage receiving = Stage::kReceiving;
  stage_.compare_exchange_strong(receiving, Stage::kClosing);
  record_.Fail(*failure);
  call_->FinishWith(*failure, record_.id);
}

void TensorCall::WatchSending(absl::Time now) {
  const bool awaited =
      env_->ledger->ReplyAwaitedSince(now - absl::Milliseconds(50));
  const auto verdict = send_watch_.Look(*progress_, *call_->connection(),
                                        env_->max_send, awaited, now);
  if (verdict == SendWatch::Verdict::kGood) return;
  stage_ = Stage::kClosing;
  env_->ledger->Distrust(*call_->connection());
  if (verdict == SendWatch::Verdict::kStuck) {
    call_->connection()->Shut();
  } else {
    call_->Cancel();
  }
}

std::optional<Failure> TensorCall::Stopped(std::string_view where) const {
  if (SteadyNow() >= call_->deadline()) return Failure::Deadline(where);
  if (call_->cancelled() || call_->answered()) return Failure::Cancelled();
  return std::nullopt;
}

Failure TensorCall::Refusal(MemoryLedger::Outcome outcome) const {
  if (outcome == MemoryLedger::Outcome::kStopped) return Failure::Draining();
  if (outcome == MemoryLedger::Outcome::kNoDevice) {
    return Failure::NoDevice(env_->monitor->RetryDelay());
  }
  if (auto failure = Stopped("while waiting for memory")) return *failure;
  if (stage_ == Stage::kAdmitting) env_->ledger->Excuse(*call_->connection());
  return stage_ == Stage::kAdmitting
             ? NotNow(*env_->ledger, outcome, ask_)
             : Failure::Busy(env_->ledger->RetryDelay());
}

void TensorCall::Fail(const Failure& failure) {
  LetGo();
  if (!call_->ClaimAnswer()) return;
  stage_ = Stage::kClosing;
  record_.Fail(failure);
  if (record_.error.empty()) record_.error = failure.message;
  call_->FinishWith(failure, record_.id);
}

void TensorCall::LetGo() {
  message_.Clear();
  places_ = {};
  charge_.Reset();
}

void TensorCall::OnFinished(bool ok) {
  if (ok) record_.sent = Clock::now();
  if (copied_) progress_->left = 1;
  if (!ok || stage_ != Stage::kReplying) return;
  env_->ledger->Prove(*call_->connection());
}

void TensorCall::OnCancelled() { LeaveQueues(); }

// Where it waits in a queue nothing else would wake it.
void TensorCall::LeaveQueues() {
  if (env_->ledger->Forget(this)) {
    Fail(Refusal(MemoryLedger::Outcome::kTimedOut));
    call_->Unref();
  } else if (stage_ == Stage::kQueued &&
             env_->engine->Withdraw(queued_on_, this)) {
    Fail(*Stopped("while waiting for a device"));
    call_->Unref();
  }
}

void TensorCall::RecordEnd() {
  record_.ended = Clock::now();
  // Whatever was found wrong with a call whose client has gone, a message that
  // never came above all, that is what ended it.
  if (call_->cancelled() && record_.code != grpc::StatusCode::OK &&
      record_.code != grpc::StatusCode::DEADLINE_EXCEEDED &&
      record_.request_bytes == 0) {
    record_.Fail(Failure::Cancelled());
    record_.error = "the connection was lost or the call cancelled";
  }
  env_->metrics->Record(record_);
  if (!WouldLog(record_)) return;
  LogCall(record_, *call_, shape_.empty() ? Shape() : shape_);
}

std::string TensorCall::Shape() const {
  if (request_.plan == nullptr) return "";
  return fmt::format("{}", fmt::join(request_.plan->tensor().shape, "x"));
}

}  // namespace quantd
