// The part of a call between a granted device and the reply.
#include <utility>

#include "kernels/device/health/device_health.h"
#include "server/calls/call.h"
#include "server/config/sizing.h"

namespace quantd {
namespace {

// Number of devices that a call may try: a request that breaks devices must not
// break all of them.
constexpr int kMostRuns = 3;
// Jobs up to this size, which takes about a millisecond, run inline for a lone
// caller.
constexpr size_t kInlineOfOne = size_t{4} << 20;
// Sizes that take a GPU half a millisecond, which run inline, too: tensors in
// its own memory, and tensors in host memory that it copies by itself.
constexpr size_t kInlineOnDevice = size_t{1} << 30;
constexpr size_t kInlineCopied = size_t{16} << 20;

}  // namespace

bool Call::IsQuick() const {
  const size_t bytes = payload_->request().plan->input_bytes();
  if (Engine::RunsInline(bytes)) return true;
  if (env_->registry.accepted() > 1 || !env_->lone.IsLikely(Clock::now())) {
    return false;
  }
  const Places& places = payload_->places();
  if (bytes <= kInlineOfOne) return true;
  if (places.inputs_on_device()) return bytes <= kInlineOnDevice;
  return places.inputs_page_locked() && bytes <= kInlineCopied &&
         env_->engine.backend(lease_.device()).info().kind == "cuda";
}

void Call::AwaitSlot() {
  const int device = lease_.device();
  call_->Ref();  // for RunOn
  // A job may hang, so it must not run on a thread that exists only once, such
  // as the gate's. A stream's first step is not run inline either: many follow.
  if (std::exchange(on_network_, false) && !streams() && IsQuick()) {
    if (auto slot = env_->engine.TrySlot(device)) {
      runs_inline_ = true;
      return RunOn(env_->engine.backend(device), std::move(slot));
    }
  }
  runs_inline_ = false;
  Enter(Stage::kQueued);
  queued_on_ = device;
  env_->engine.Submit(device, this);
  // A cancellation just before could not find it in the queue.
  if (call_->cancelled()) LeaveQueues();
}

void Call::RunOn(Backend& backend, Engine::SlotLease slot) {
  queued_on_ = -1;
  if (!env_->engine.health(lease_.device()).healthy()) {
    slot.Reset();
    RunElsewhere();
    return call_->Unref();
  }
  bool again = false;
  Next next = Next::kReply;
  BeginWatch();
  std::optional<Failure> failure = Compute(backend, &next, &again);
  if (!EndWatch()) {
    LetGo();
    return call_->Unref();
  }
  // A job must end before its slot is freed.
  if (failure || again) {
    payload_->DropJob();
  } else if (next == Next::kReply) {
    MakeReply();
  }
  slot.Reset();
  if (failure) {
    Fail(*failure);
  } else if (again) {
    RunElsewhere();
  } else {
    Do(next);
  }
  call_->Unref();
}

std::optional<Failure> Call::Compute(Backend& backend, Next* next,
                                     bool* again) {
  record_.device = backend.info().name;
  record_.started = Clock::now();
  if (auto failure = Stopped("before the job began")) return failure;
  absl::StatusOr<Next> done = Next::kCompute;
  if (!payload_->has_job()) {
    // Nobody waits for a result beyond the deadline.
    if (runs_ == 0 && lease_.JobEndsTooLate(call_->deadline(), Now())) {
      return Failure::Deadline("before the job could end");
    }
    ++runs_;
    has_input_ = true;
    done = payload_->Begin(backend, message_.Pieces(), job_watch_.pieces());
    if (!done.ok()) return FromJob(done.status(), again);
    // A stream's chunks are only on the device, so it cannot run again. With a
    // single device, freeing the message is worth more than a second try.
    has_input_ = !streams() && (payload_->places().lends_inputs() ||
                                (runs_ < kMostRuns && env_->engine.size() > 1));
    if (!has_input_) DropMessage();
  }
  record_.gathered = Clock::now();
  if (*done == Next::kCompute) {
    if (auto failure = Stopped("before the job ran")) return failure;
    done = payload_->Compute();
    record_.computed = Clock::now();
    if (!done.ok()) return FromJob(done.status(), again);
    if (has_input_) DropMessage();
    if (auto failure = Stopped("while the job ran")) return failure;
  }
  *next = *done;
  return std::nullopt;
}

void Call::DropMessage() {
  if (streams()) return;  // its message is already dropped, and its window held
  message_.Clear();
  lease_.HoldReceiving(ReceiveNeed(0));
}

bool Call::MayRunAgain() const {
  // Tensors in one device's memory cannot be used by another. Outputs never
  // overlap inputs, so the inputs are intact.
  return device_ < 0 && runs_ < kMostRuns && has_input_;
}

void Call::RunElsewhere() {
  if (auto failure = Stopped("while waiting for a device")) {
    return Fail(*failure);
  }
  // The chunks of a stream that has begun exist only on the lost device.
  if (payload_->has_job()) {
    return Fail(Failure::NoDevice(env_->monitor->RetryDelay()));
  }
  // The slot is given back, and so is the device's memory.
  lease_.ShrinkPayload(0);
  Claim();
}

std::optional<Failure> Call::FromJob(const absl::Status& status, bool* again) {
  if (!absl::IsInvalidArgument(status)) {
    record_.error = std::string(status.message());
  }
  if (const std::optional<DeviceFault> fault = FaultOf(status)) {
    env_->monitor->Report(lease_.device(), *fault, record_.error, record_.id);
    if (auto failure = Stopped("while the job ran")) return failure;
    *again = MayRunAgain();
    if (*again) return std::nullopt;
    // If so many devices fail, the request is the likely cause.
    if (runs_ < kMostRuns || *fault == DeviceFault::kOutOfMemory) {
      return Failure::NoDevice(env_->monitor->RetryDelay());
    }
  }
  return Failure::FromJob(status, record_.device,
                          env_->gate->RetryAfter(Now()));
}

// Covers the time from before a job takes memory until it has given it back: a
// device may hang at any point in it.
void Call::BeginWatch() {
  absl::MutexLock lock(&mutex_);
  job_watch_.Begin(*payload_->request().plan, env_->options.max_job);
  relieved_ = false;
  stage_ = Stage::kRunning;
}

bool Call::EndWatch() {
  const size_t bytes = payload_->request().plan->input_bytes();
  absl::MutexLock lock(&mutex_);
  if (runs_inline_ && !Engine::RunsInline(bytes)) env_->lone.JobEnds();
  if (relieved_) thread_is_relieved = true;
  if (stage_ == Stage::kClosing) {
    env_->monitor->HungJobEnded(lease_.device());
    return false;
  }
  stage_ = Stage::kQueued;
  return true;
}

void Call::Do(Next next) {
  switch (next) {
    case Next::kReceive:
      return Receive(Stage::kFeeding, payload_->NextMessage());
    case Next::kCompute:
      return AwaitSlot();
    case Next::kTell:
      return Tell();
    case Next::kReply:
      Enter(Stage::kReplying);
      return Send();
  }
}

// A message of a stream after its request, or the end of messages.
void Call::OnMessage(bool ok) {
  if (auto failure = Stopped("while receiving")) return Fail(*failure);
  const size_t size = message_.size();
  record_.request_bytes += size;
  auto next = ok ? payload_->Take(message_.Pieces()) : payload_->TakeEnd();
  if (!next.ok()) {
    ended_early_ = !ok;
    return Fail(Failure::BadRequest(next.status()));
  }
  if (*next == Next::kCompute) {
    record_.received = Clock::now();
    message_.Clear();
    if (ok) {
      lease_.HoldReceiving(ReceiveNeed(env_->shares.window));
    } else {
      lease_.Arrived(ReceiveNeed(0), payload_->bytes_to_come(), Now());
    }
  }
  Do(*next);
}

// Under the lock, so that the watch cannot end the call before it writes.
void Call::Tell() {
  const grpc::Slice message(payload_->told());
  lease_.HoldReceiving(ReceiveNeed(env_->shares.window + message.size()));
  absl::MutexLock lock(&mutex_);
  since_ = moved_ = Now();
  stage_ = Stage::kTelling;
  call_->Write(grpc::ByteBuffer(&message, 1));
}

void Call::MakeReply() {
  record_.device_times = payload_->report().times;
  record_.shared_input_bytes = payload_->places().input_bytes();
  record_.shared_output_bytes = payload_->places().output_bytes();
  std::string head = payload_->ReplyHead(record_.device, record_.id);
  JobOutput output = payload_->Finish();
  record_.reply_bytes = head.size() + output.size;
  record_.code = grpc::StatusCode::OK;  // unless the call fails while sending
  // The plan is freed here, after its shape is kept for the log: with many
  // groups it is as large as a payload, and the reply may stay unread for long.
  if (WouldLog(record_)) shape_ = Shape();
  payload_.reset();
  lease_.Served(Now());
  lease_.ShrinkHead(head.size());
  reply_.emplace(std::move(head), std::move(output), std::move(lease_),
                 streams());
  record_.answered = Clock::now();
}

void Call::Send() {
  if (auto chunk = reply_->NextChunk()) return call_->Write(*chunk);
  if (!call_->ClaimAnswer()) return LetGo();
  sends_last_ = true;
  call_->WriteAndFinish(reply_->Last(), record_.id);
}

void Call::OnWritten(bool ok) {
  if (LeaveClient() == Stage::kClosing && !reply_) return;
  if (auto failure = Stopped("while sending")) return Fail(*failure);
  if (!ok) return Fail(Failure::Cancelled());
  if (reply_) return Send();
  Do(Next::kReceive);
}

}  // namespace quantd
