// A stream and the device that computes it, and what takes too long.
#include <algorithm>
#include <utility>

#include "kernels/device/health/device_health.h"
#include "server/calls/stream_call.h"
#include "server/config/sizing.h"
#include "server/device/device_monitor.h"
#include "server/gate/steady_time.h"

namespace quantd {
namespace {

// What a stream must bring in a second beside what is allowed for any.
constexpr uint64_t kSlowest = uint64_t{1} << 20;
// Others wait for memory, and so much has not come for kSenderPatience.
constexpr uint64_t kStep = 256 << 10;

}  // namespace

void StreamCall::RunOn(Backend& backend, Engine::SlotLease slot) {
  const Stage asked = stage_;
  std::optional<Failure> failure = Stopped("while waiting for a device");
  if (!failure && !env_->engine->health(charge_.device()).healthy()) {
    failure = Failure::NoDevice(env_->monitor->RetryDelay());
  }
  if (failure) {
    slot.Reset();
    Fail(*failure);
    return call_->Unref();
  }
  BeginWatch();
  if (asked == Stage::kBeginning) {
    failure = BeginJob(backend);
  } else if (asked == Stage::kSeeking) {
    failure = FindMaxima();
  } else {
    failure = RunJob(std::move(slot));
  }
  if (!EndWatch()) {
    LetGo();
    return call_->Unref();
  }
  slot.Reset();
  if (failure) {
    Fail(*failure);
  } else if (asked == Stage::kBeginning) {
    receive_since_ = absl::ToUnixNanos(SteadyNow());
    ReceiveNext();
  } else if (asked == Stage::kSeeking) {
    TellMaxima();
  } else {
    stage_ = Stage::kReplying;
    WriteNext();
  }
  call_->Unref();
}

void StreamCall::OnDeviceLost() {
  Fail(Failure::NoDevice(env_->monitor->RetryDelay()));
  call_->Unref();
}

std::optional<Failure> StreamCall::BeginJob(Backend& backend) {
  record_.device = backend.info().name;
  auto job = backend.Begin(request_.plan);
  if (!job.ok()) return FromJob(job.status());
  job_ = *std::move(job);
  job_->CountPieces(job_watch_.pieces());
  gather_.emplace(request_, job_->staging());
  return std::nullopt;
}

std::optional<Failure> StreamCall::RunJob(Engine::SlotLease slot) {
  record_.started = record_.gathered = Clock::now();
  if (reduces_) {
    const absl::Status settled = job_->Settle(request_.plan);
    if (!settled.ok()) return FromJob(settled);
  }
  const absl::StatusOr<JobReport> report = job_->Run();
  record_.computed = Clock::now();
  if (!report.ok()) return FromJob(report.status());
  record_.device_times = report->times;
  if (auto failure = Stopped("while the job ran")) return failure;
  Block output = job_->TakeOutput();
  gather_.reset();
  job_.reset();
  slot.Reset();
  place_.Reset();
  const size_t size = output.size();
  head_ = wire::StreamReplyHead(*request_.plan, *report, record_.device,
                                record_.id);
  record_.reply_bytes = head_.size() + size;
  if (WouldLog(record_)) shape_ = Shape();
  request_ = {};
  charge_.Served();
  charge_.ShrinkHead(head_.size());
  charge_.ShrinkReceive(0);
  charge_.ShrinkPayload(BlockPool::Charge(size));
  progress_ = std::make_shared<ReplyProgress>();
  chunks_.emplace(std::move(output), size, std::move(charge_), progress_);
  record_.answered = Clock::now();
  return std::nullopt;
}

Failure StreamCall::FromJob(const absl::Status& status) {
  if (!absl::IsInvalidArgument(status)) {
    record_.error = std::string(status.message());
  }
  // What came of the payload was the device's alone: the client sends again.
  if (const std::optional<DeviceFault> fault = FaultOf(status)) {
    env_->monitor->Report(charge_.device(), *fault, record_.error, record_.id);
    return Failure::NoDevice(env_->monitor->RetryDelay());
  }
  return Failure::FromJob(status, record_.device, env_->ledger->RetryDelay());
}

void StreamCall::BeginWatch() {
  job_watch_.Begin(*request_.plan, env_->max_job);
  stage_ = Stage::kRunning;
  watched_ = Watched::kJobRuns;
}

bool StreamCall::EndWatch() {
  if (watched_.exchange(Watched::kNoJob) != Watched::kJobHangs) return true;
  env_->monitor->HungJobEnded(charge_.device());
  return false;
}

void StreamCall::OnWatch(absl::Time now) {
  switch (const Stage stage = stage_) {
    case Stage::kReceiving:
    case Stage::kFeeding:
    case Stage::kAwaiting:
    case Stage::kSettled:
      return WatchReceiving(stage, now);
    case Stage::kTelling:
      return WatchTelling(now);
    case Stage::kUntaken:
      return WatchUntaken(now);
    case Stage::kRunning:
      return WatchJob();
    case Stage::kReplying:
      return WatchSending(now);
    default:
      return;
  }
}

// It holds staging that others wait for, and does not fill it.
StreamCall::InTheWay StreamCall::IsInTheWay(absl::Time now, uint64_t came) {
  const Connection& connection = *call_->connection();
  const uint64_t received = connection.Received().value_or(came);
  if (came >= seen_.step_came + kStep ||
      (connection.calls() == 1 && received >= seen_.step_received + kStep) ||
      connection.HasUnread() ||
      seen_.stepped < absl::FromUnixNanos(receive_since_)) {
    seen_.step_came = came;
    seen_.step_received = received;
    seen_.stepped = now;
    return InTheWay::kOfNobody;
  }
  if (now - seen_.stepped <= kSenderPatience) return InTheWay::kOfNobody;
  if (env_->ledger->ReplyAwaitedSince(now - kSenderPatience)) {
    return InTheWay::kOfMemory;
  }
  return env_->engine->FeedingRefusedWithin(
             charge_.device(), absl::ToChronoNanoseconds(kSenderPatience))
             ? InTheWay::kOfPlaces
             : InTheWay::kOfNobody;
}

std::optional<Failure> StreamCall::WhyNotReceiving(Stage stage,
                                                   absl::Time now) {
  if (revoked_ == kOthersWait) {
    return Failure::Busy(env_->ledger->RetryDelay());
  }
  const bool is_start = stage == Stage::kReceiving;
  const bool feeds = stage == Stage::kFeeding;
  if (revoked_ == kTooLong) {
    const auto [what, most] =
        is_start ? std::pair("request", wire::kMaxRequestHeadBytes)
        : feeds  ? std::pair("chunk", wire::kMaxChunkBytes)
                 : std::pair("reduced_amax", wire::kMaxReducedBytes);
    return Failure::TooLarge(what, most + 1, most);
  }
  const absl::Time since = absl::FromUnixNanos(receive_since_);
  const uint64_t came = came_;
  if (came != seen_.came || seen_.moved < since) {
    seen_.moved = now;
    seen_.came = came;
  }
  const InTheWay way = is_start ? InTheWay::kOfNobody : IsInTheWay(now, came);
  if (way != InTheWay::kOfNobody) {
    // Whoever waits for others with an answer has done nothing wrong; nor has
    // one whose only fault is that somebody else wants many places.
    if (feeds && way == InTheWay::kOfMemory) {
      env_->ledger->Distrust(*call_->connection());
    }
    return Failure::Busy(env_->ledger->RetryDelay());
  }
  const absl::Duration whole =
      env_->max_receive +
      (feeds ? absl::Seconds(payload_bytes_ / kSlowest) : absl::ZeroDuration());
  if (now - seen_.moved > env_->max_receive || now - since > whole) {
    return Failure::Deadline(
        is_start ? "for receiving: the request did not arrive within the "
                   "server's limit"
        : feeds  ? "for receiving: the stream's chunks do not come within the "
                   "server's limit"
                 : "for receiving: the answer to the stream's maxima did not "
                   "come within the server's limit");
  }
  return std::nullopt;
}

void StreamCall::WatchReceiving(Stage stage, absl::Time now) {
  const std::optional<Failure> failure = WhyNotReceiving(stage, now);
  // The memory goes back when the read, which this ends, comes back.
  if (failure && Leave(stage, Stage::kClosing)) AnswerWatched(*failure);
}

void StreamCall::AnswerWatched(const Failure& failure) {
  if (!call_->ClaimAnswer()) return;
  env_->ledger->Excuse(*call_->connection());
  record_.Fail(failure);
  record_.error = failure.message;
  call_->FinishWith(failure, record_.id);
}

void StreamCall::WatchJob() {
  if (watched_ != Watched::kJobRuns || !job_watch_.Hangs()) return;
  Watched running = Watched::kJobRuns;
  if (!watched_.compare_exchange_strong(running, Watched::kJobHangs)) return;
  env_->monitor->Report(charge_.device(), DeviceFault::kHang,
                        "a job does not get on within its limit", record_.id);
  if (!call_->ClaimAnswer()) return;
  const Failure failure = Failure::NoDevice(env_->monitor->RetryDelay());
  record_.Fail(failure);
  call_->FinishWith(failure, record_.id);
  // A shutdown need not wait for what has its answer.
  Release();
}

void StreamCall::WatchSending(absl::Time now) {
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

}  // namespace quantd
