#include "server/calls/stream_call.h"

#include <algorithm>
#include <utility>

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
#include "server/net/credentials.h"
#include "server/observe/metrics.h"

namespace quantd {
namespace {

// A first message that is understood on the network's own thread.
constexpr size_t kShortStart = 512;
// What a message with a chunk has beside it.
constexpr size_t kBesideChunk = 8 << 10;
// What one counts as until more of it has come.
constexpr uint64_t kFirstOfChunk = 256 << 10;

// A payload that is larger than any device's memory, whatever of it is used.
absl::Status CheckPayloadBytes(uint64_t bytes, size_t most) {
  if (bytes <= most) return absl::OkStatus();
  return TooLargeError("payload_bytes", fmt::format("at most {}", most),
                       fmt::to_string(bytes), most);
}

}  // namespace

StreamCall::StreamCall(CallEnvironment* env, IncomingCall* call)
    : env_(env), call_(call) {
  record_.method = wire::Method::kStream;  // until the first message is read
  record_.streamed = true;
  record_.arrived = Clock::now();
  record_.id = env_->ids->Next();
  record_.trace = call_->trace();
}

StreamCall::~StreamCall() {
  LetGo();
  RecordEnd();
  Release();
}

void StreamCall::Release() {
  if (accepted_.exchange(false)) env_->registry->Release();
}

void StreamCall::Begin() {
  accepted_ = env_->registry->Accept();
  if (!accepted_) return Fail(Failure::Draining());
  if (auto failure = Stopped("on arrival")) return Fail(*failure);
  if (!env_->monitor->takes_work()) {
    return Fail(Failure::NoDevice(env_->monitor->RetryDelay()));
  }
  ask_ = {call_->connection(), ReceiveNeed(env_->window),
          ReceiveNeed(wire::kMaxRequestHeadBytes), call_->deadline()};
  if (auto failure = Admit(*env_->quotas, *call_, 0, &ask_, &quota_)) {
    return Fail(*failure);
  }
  call_->Ref();  // for OnMemory
  const auto outcome = env_->ledger->AdmitReceive(ask_, this, &charge_);
  if (outcome == MemoryLedger::Outcome::kWaiting) return Waits();
  if (outcome == MemoryLedger::Outcome::kGranted) {
    ReceiveStart();
  } else {
    Fail(Refusal(outcome));
  }
  call_->Unref();
}

void StreamCall::OnMemory(MemoryLedger::Outcome outcome, MemoryCharge charge) {
  charge_ = std::move(charge);
  if (outcome != MemoryLedger::Outcome::kGranted) {
    Fail(Refusal(outcome));
  } else if (stage_ == Stage::kClaiming) {
    Submit(Stage::kBeginning);
  } else if (stage_ == Stage::kCounting) {
    call_->Plan([this] { PlanRequest(); }, true);
  } else {
    ReceiveStart();
  }
  call_->Unref();
}

void StreamCall::Revoke(MemoryLedger::Revocation why) {
  revoked_ = why == MemoryLedger::Revocation::kTooLong ? kTooLong : kOthersWait;
}

void StreamCall::ReceiveStart() {
  record_.admitted = Clock::now();
  if (auto failure = Stopped("while waiting for memory")) {
    return Fail(*failure);
  }
  receive_since_ = absl::ToUnixNanos(SteadyNow());
  stage_ = Stage::kReceiving;
  call_->Read(message_.buffer());
}

void StreamCall::OnRead(bool ok) {
  const Stage stage = stage_;
  if (stage == Stage::kClosing || !Leave(stage, Stage::kTaking)) return LetGo();
  if (stage == Stage::kReceiving) {
    if (!ok) {
      auto failure = Stopped("while receiving");
      return Fail(failure ? *failure : Failure::NoMessage());
    }
    return OnStart();
  }
  if (stage == Stage::kAwaiting) return OnAnswer(ok);
  if (stage == Stage::kSettled) return OnSettled(ok);
  OnChunk(ok);
}

void StreamCall::OnStart() {
  const size_t size = message_.size();
  record_.request_bytes = size;
  // Chunks that nobody reads yet fill the window.
  charge_.Arrived(size, ReceiveNeed(size + env_->window));
  if (size > wire::kMaxRequestHeadBytes) {
    return Fail(Failure::TooLarge("request", size, wire::kMaxRequestHeadBytes));
  }
  if (auto failure = Stopped("while receiving")) return Fail(*failure);
  env_->ledger->AllowUnread(env_->window, &charge_);
  if (size <= kShortStart) return PlanRequest();
  call_->Plan([this] { CountLists(); }, true);
}

void StreamCall::CountLists() {
  const auto separated =
      wire::SeparateRequest(wire::Method::kStream, message_.Pieces());
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

void StreamCall::PlanRequest() {
  auto start = wire::ParseStreamStart(message_.Pieces(), env_->defaults);
  if (!start.ok()) return Fail(Failure::BadRequest(start.status()));
  request_ = std::move(start->request);
  payload_bytes_ = start->payload_bytes;
  reduces_ = start->reduces;
  record_.method = wire::MethodOf(*request_.plan);
  const auto& caller = call_->caller();
  if (caller != nullptr && !caller->May(record_.method)) {
    return Fail(env_->credentials->Forbid(record_.method, *caller,
                                          call_->connection()->name()));
  }
  const auto& limits = env_->ledger->limits().payload;
  const size_t most = *std::max_element(limits.begin(), limits.end());
  absl::Status fits = CheckPayload(*request_.plan, most);
  if (fits.ok()) fits = CheckPayloadBytes(payload_bytes_, most);
  if (!fits.ok()) return Fail(Failure::BadRequest(fits));
  message_.Clear();
  charge_.ShrinkReceive(ReceiveNeed(env_->window));
  Claim();
}

void StreamCall::Claim() {
  stage_ = Stage::kClaiming;
  call_->Ref();  // for OnMemory
  const auto outcome = env_->ledger->AdmitPayload(
      PayloadNeed(*request_.plan), -1, call_->deadline(), this, &charge_);
  if (outcome == MemoryLedger::Outcome::kWaiting) return Waits();
  if (outcome == MemoryLedger::Outcome::kGranted) {
    Submit(Stage::kBeginning);
  } else {
    Fail(Refusal(outcome));
  }
  call_->Unref();
}

// A device may hang where a job begins, so that a worker does it.
void StreamCall::Submit(Stage stage) {
  if (stage == Stage::kBeginning) {
    place_ = env_->engine->TryFeeding(charge_.device());
    if (!place_) {
      // Nobody makes way for one that stands in the way itself.
      if (env_->ledger->StandingOf(*call_->connection()) <=
          MemoryLedger::Standing::kGood) {
        env_->engine->NoteFeedingRefused(charge_.device());
      }
      return Fail(Failure::Busy(env_->ledger->RetryDelay()));
    }
  }
  const int device = charge_.device();
  stage_ = stage;
  call_->Ref();  // for RunOn
  env_->engine->Submit(device, this);
  Waits();
}

void StreamCall::Waits() {
  // A cancellation that came just before the wait looked in vain for it.
  if (call_->cancelled()) LeaveQueues();
}

void StreamCall::ReceiveNext() {
  // Nothing comes behind the last chunk until the maxima are told.
  if (!reduces_ || gather_->came() < payload_bytes_) return ReceiveChunk();
  const size_t size = message_.size();
  charge_.Arrived(size, ReceiveNeed(env_->window));
  message_.Clear();
  Submit(Stage::kSeeking);
}

void StreamCall::ReceiveChunk() {
  const size_t came = message_.size();
  message_.Clear();
  const uint64_t left = payload_bytes_ - gather_->came();
  env_->ledger->ExpectNext(came, ReceiveNeed(std::min(left, kFirstOfChunk)),
                           ReceiveNeed(wire::kMaxChunkBytes + kBesideChunk),
                           this, &charge_);
  stage_ = Stage::kFeeding;
  call_->Read(message_.buffer());
}

void StreamCall::OnChunk(bool ok) {
  const size_t size = message_.size();
  if (auto failure = Stopped("while receiving")) return Fail(*failure);
  if (!ok) {
    charge_.Arrived(size, ReceiveNeed(size));
    const absl::Status whole =
        wire::CheckWhole(gather_->came(), payload_bytes_);
    ended_early_ = !whole.ok();
    if (ended_early_) return Fail(Failure::BadRequest(whole));
    record_.received = Clock::now();
    charge_.Begins(payload_bytes_);
    return Submit(Stage::kQueued);
  }
  record_.request_bytes += size;
  quota_.Pay(size, SteadyNow());
  auto chunk = wire::ParseChunk(message_.Pieces());
  if (!chunk.ok()) return Fail(Failure::BadRequest(chunk.status()));
  const absl::Status fits =
      wire::CheckChunk(gather_->came(), chunk->size, payload_bytes_);
  if (!fits.ok()) return Fail(Failure::BadRequest(fits));
  gather_->Add(message_.Pieces(), *chunk);
  came_ += size;
  job_->Fed(gather_->settled());
  ReceiveNext();
}

void StreamCall::WriteNext() {
  if (auto chunk = chunks_->Next()) return call_->Write(*chunk);
  if (!call_->ClaimAnswer()) return LetGo();
  record_.code = grpc::StatusCode::OK;
  sends_last_ = true;
  const grpc::Slice last(head_);
  call_->WriteAndFinish(grpc::ByteBuffer(&last, 1), record_.id);
}

void StreamCall::OnWritten(bool ok) {
  if (Leave(Stage::kFound, Stage::kTaking) ||
      Leave(Stage::kTelling, Stage::kTaking)) {
    return OnTold(ok);
  }
  if (stage_ == Stage::kUntaken) return;
  if (auto failure = Stopped("while sending the reply")) return Fail(*failure);
  if (!ok) return Fail(Failure::Cancelled());
  WriteNext();
}

void StreamCall::OnFinished(bool ok) {
  if (!sends_last_) return;
  progress_->left.fetch_add(1, std::memory_order_acq_rel);
  if (!ok) return;
  record_.sent = Clock::now();
  if (stage_ == Stage::kReplying) env_->ledger->Prove(*call_->connection());
}

void StreamCall::OnCancelled() { LeaveQueues(); }

// Where it waits in a queue nothing else would wake it.
void StreamCall::LeaveQueues() {
  if (env_->ledger->Forget(this)) {
    Fail(Refusal(MemoryLedger::Outcome::kTimedOut));
    call_->Unref();
    return;
  }
  const Stage stage = stage_;
  if ((stage == Stage::kBeginning || stage == Stage::kSeeking ||
       stage == Stage::kQueued) &&
      env_->engine->Withdraw(charge_.device(), this)) {
    Fail(*Stopped("while waiting for a device"));
    call_->Unref();
  }
}

std::optional<Failure> StreamCall::Stopped(std::string_view where) const {
  if (SteadyNow() >= call_->deadline()) return Failure::Deadline(where);
  if (call_->cancelled() || call_->answered()) return Failure::Cancelled();
  return std::nullopt;
}

Failure StreamCall::Refusal(MemoryLedger::Outcome outcome) const {
  if (outcome == MemoryLedger::Outcome::kStopped) return Failure::Draining();
  if (outcome == MemoryLedger::Outcome::kNoDevice) {
    return Failure::NoDevice(env_->monitor->RetryDelay());
  }
  if (auto failure = Stopped("while waiting for memory")) return *failure;
  return stage_ == Stage::kAdmitting
             ? NotNow(*env_->ledger, outcome, ask_)
             : Failure::Busy(env_->ledger->RetryDelay());
}

void StreamCall::Fail(const Failure& failure) {
  // What the client has sent before it knows is no offence, unless it left the
  // call before anything of it was read.
  if (record_.request_bytes != 0 || failure.IsServersNeed()) {
    env_->ledger->Excuse(*call_->connection());
  }
  LetGo();
  if (!call_->ClaimAnswer()) return;
  stage_ = Stage::kClosing;
  record_.Fail(failure);
  if (record_.error.empty()) record_.error = failure.message;
  call_->FinishWith(failure, record_.id);
}

// A block goes back to its pool before its charge goes back to the ledger.
void StreamCall::LetGo() {
  chunks_.reset();
  gather_.reset();
  job_.reset();
  place_.Reset();
  message_.Clear();
  charge_.Reset();
}

void StreamCall::RecordEnd() {
  record_.ended = Clock::now();
  // Of a client that has gone the stream ends early, too.
  if (call_->cancelled() && record_.code != grpc::StatusCode::OK &&
      record_.code != grpc::StatusCode::DEADLINE_EXCEEDED &&
      (record_.request_bytes == 0 || ended_early_)) {
    record_.Fail(Failure::Cancelled());
    record_.error = "the connection was lost or the call cancelled";
  }
  env_->metrics->Record(record_);
  if (!WouldLog(record_)) return;
  LogCall(record_, *call_, shape_.empty() ? Shape() : shape_);
}

std::string StreamCall::Shape() const {
  if (request_.plan == nullptr) return "";
  return fmt::format("{}", fmt::join(request_.plan->tensor().shape, "x"));
}

}  // namespace quantd
