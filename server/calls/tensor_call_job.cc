// A tensor call and the device that does, or does not, what it asks.
#include <utility>

#include "absl/time/clock.h"
#include "kernels/device/health/device_health.h"
#include "server/calls/call_registry.h"
#include "server/calls/tensor_call.h"
#include "server/config/sizing.h"
#include "server/device/device_monitor.h"
#include "server/net/completion_tag.h"
#include "server/net/lone_caller.h"

namespace quantd {
namespace {

// Devices that a call may try. A request that makes devices fail must not go
// round all of them.
constexpr int kMostRuns = 3;
// A network thread that is in a job for longer is relieved.
constexpr std::chrono::milliseconds kLongInline{100};
// What is done in a millisecond or so, where one caller is all there is.
constexpr size_t kInlineOfOne = size_t{4} << 20;
// A message that came in more, of a few bytes each, takes long to gather.
constexpr size_t kFewPieces = 4096;
// A GPU's half millisecond: of what lies in its memory, and of what it copies
// by itself from the host's.
constexpr size_t kInlineOnDevice = size_t{1} << 30;
constexpr size_t kInlineCopied = size_t{16} << 20;

}  // namespace

// Whether to hand the job to a worker would take longer than to do it here.
bool TensorCall::IsQuick(int device) {
  const size_t bytes = request_.plan->input_bytes();
  if (Engine::RunsInline(bytes)) return true;
  if (env_->registry->accepted() > 1 || !env_->lone->IsLikely(Clock::now())) {
    return false;
  }
  if (bytes <= kInlineOfOne && message_.Pieces().size() <= kFewPieces) {
    return true;
  }
  if (places_.inputs_on_device()) return bytes <= kInlineOnDevice;
  return places_.inputs_page_locked() && bytes <= kInlineCopied &&
         env_->engine->backend(device).info().kind == "cuda";
}

void TensorCall::RunOn(Backend& backend, Engine::SlotLease slot) {
  stage_ = Stage::kRunning;
  record_.device = backend.info().name;
  bool again = !env_->engine->health(charge_.device()).healthy();
  std::optional<Failure> failure;
  if (again) {
    slot.Reset();
  } else {
    BeginWatch();
    const bool is_long = !Engine::RunsInline(request_.plan->input_bytes());
    failure = Compute(backend, std::move(slot), &again);
    if (job_.is_inline && is_long) env_->lone->JobEnds();
    if (!EndWatch()) {
      LetGo();
      return call_->Unref();
    }
  }
  if (failure) Fail(*failure);
  if (again) RunElsewhere();
  call_->Unref();
}

std::optional<Failure> TensorCall::Compute(Backend& backend,
                                           Engine::SlotLease slot,
                                           bool* again) {
  record_.started = Clock::now();
  if (auto failure = Stopped("before the job began")) return failure;
  // The device has better things to do than what nobody will wait for.
  if (runs_ == 0 && charge_.IsTooLate()) {
    return Failure::Deadline("before the job could end");
  }
  ++runs_;
  has_input_ = true;
  // After the slot: the job ends before the slot is free.
  TensorJob job(request_, places_);
  if (auto s = job.Begin(backend, message_.Pieces(), job_.watch.pieces());
      !s.ok()) {
    return FromJob(s, again);
  }
  // Of one device alone the memory is worth more than a second try.
  has_input_ = places_.lends_inputs() ||
               (runs_ < kMostRuns && env_->monitor->HasAlternative());
  const auto drop_message = [&] {
    message_.Clear();
    charge_.ShrinkReceive(ReceiveNeed(0));
  };
  if (!has_input_) drop_message();
  record_.gathered = Clock::now();
  if (auto failure = Stopped("before the job ran")) return failure;
  const absl::StatusOr<JobReport> report = job.Run();
  record_.computed = Clock::now();
  if (!report.ok()) return FromJob(report.status(), again);
  if (has_input_) drop_message();
  record_.device_times = report->times;
  if (auto failure = Stopped("while the job ran")) return failure;
  JobOutput output = job.Finish();
  charge_.ShrinkPayload(BlockPool::Charge(output.block.size()));
  slot.Reset();
  Reply(*report, std::move(output));
  return std::nullopt;
}

bool TensorCall::MayRunAgain() const {
  // What lies in a device's memory is on no other. Outputs never lie over
  // inputs: those are as they were.
  return device_ < 0 && runs_ < kMostRuns && has_input_;
}

void TensorCall::OnDeviceLost() {
  RunElsewhere();
  call_->Unref();
}

void TensorCall::RunElsewhere() {
  if (auto failure = Stopped("while waiting for a device")) {
    return Fail(*failure);
  }
  // The slot is given back, and so is what the device lent.
  charge_.ShrinkPayload(0);
  Claim();
}

std::optional<Failure> TensorCall::FromJob(const absl::Status& status,
                                           bool* again) {
  const std::optional<DeviceFault> fault = FaultOf(status);
  if (!absl::IsInvalidArgument(status)) {
    record_.error = std::string(status.message());
  }
  if (fault) {
    env_->monitor->Report(charge_.device(), *fault, record_.error, record_.id);
    if (auto failure = Stopped("while the job ran")) return failure;
    *again = MayRunAgain();
    if (*again) return std::nullopt;
    if (runs_ < kMostRuns) {
      return Failure::NoDevice(env_->monitor->RetryDelay());
    }
  }
  return Failure::FromJob(status, record_.device, env_->ledger->RetryDelay());
}

// From before a job takes memory until it has given it back: a device may hang
// in any of it.
void TensorCall::BeginWatch() {
  job_.device = charge_.device();
  job_.writes_to_lent = places_.lends_outputs();
  job_.relief = job_.kNot;
  job_.watch.Begin(*request_.plan, env_->max_job);
  watched_ = Watched::kJobRuns;
}

bool TensorCall::EndWatch() {
  if (job_.relief.exchange(job_.kEnded) == job_.kRelieved) {
    thread_is_relieved = true;
  }
  if (watched_.exchange(Watched::kNoJob) != Watched::kJobHangs) return true;
  env_->monitor->HungJobEnded(job_.device);
  return false;
}

void TensorCall::WatchJob() {
  if (watched_ != Watched::kJobRuns) return;
  auto none = job_.kNot;
  if (job_.is_inline && Clock::now() - job_.watch.began() > kLongInline &&
      job_.relief.compare_exchange_strong(none, job_.kRelieved)) {
    env_->relieve(call_->queue());
  }
  Watched running = Watched::kJobRuns;
  if (!job_.watch.Hangs() ||
      !watched_.compare_exchange_strong(running, Watched::kJobHangs)) {
    return;
  }
  env_->monitor->Report(job_.device, DeviceFault::kHang,
                        "a job does not get on within its limit", record_.id);
  // The job may write to what the client lends as long as it lives; that the
  // client must treat as after a deadline of its own.
  const Failure failure =
      job_.writes_to_lent
          ? Failure::Deadline(
                "while the job ran: the device does not answer, and may still "
                "write to the memory that the call lends")
          : Failure::NoDevice(env_->monitor->RetryDelay());
  if (!call_->ClaimAnswer()) return;
  record_.Fail(failure);
  call_->FinishWith(failure, record_.id);
  // A shutdown need not wait for what has its answer.
  Release();
}

}  // namespace quantd
