#include "client/local/local_call.h"

#include <utility>

#include "client/call/error_details.h"
#include "fmt/format.h"

namespace quantd::client {
namespace {

// Returns the status that a server would return for the failure of a job.
absl::Status FromJob(const absl::Status& status, const std::string& device) {
  absl::Status result = status;
  if (absl::IsInvalidArgument(status)) {
    SetServerError(&result, {ErrorReason::kInvalidField});
  } else if (absl::IsResourceExhausted(status)) {
    SetServerError(&result, {ErrorReason::kBusy});
    SetRetryHint(&result, std::chrono::milliseconds(0));
  } else {
    result = absl::InternalError(fmt::format("device {} failed: {}", device,
                                             std::string(status.message())));
    SetServerError(&result, {ErrorReason::kDeviceFault});
  }
  return Annotate(result, std::string(result.message()), 1);
}

}  // namespace

absl::Status WhyStopped(const std::string& target, const CallLimit& limit,
                        const CallControl& control) {
  if (control.cancelled()) {
    return Annotate(absl::CancelledError(), "cancelled by the caller", 1);
  }
  return Annotate(absl::DeadlineExceededError(""),
                  fmt::format("no reply from {} within {} ms", target,
                              limit.length.count()),
                  1);
}

absl::Status Stopped(const std::string& target, const CallLimit& limit,
                     const CallControl& control) {
  const bool late = std::chrono::system_clock::now() >= limit.deadline;
  if (!late && !control.cancelled()) return absl::OkStatus();
  return WhyStopped(target, limit, control);
}

LocalCall::LocalCall(const std::string& target, const Plan& plan,
                     absl::Span<const absl::Span<const std::byte>> payload,
                     absl::Span<const Destination> into, const CallLimit& limit,
                     CallControl& control)
    : target_(target),
      plan_(plan),
      payload_(payload),
      limit_(limit),
      control_(control),
      result_(plan, into) {}

absl::StatusOr<LentMemory> LocalCall::Lend() {
  lent_.inputs.assign(payload_.begin(), payload_.end());
  for (const TensorSpec& part : plan_.outputs()) {
    lent_.outputs.push_back(result_.Claim(part.kind));
  }
  const absl::Status& status = result_.status();
  if (!status.ok()) return Annotate(status, std::string(status.message()), 1);
  return lent_;
}

absl::StatusOr<Result> LocalCall::Run(Engine& engine, int device) {
  // If a slot is free, runs the call on this thread, which would otherwise only
  // wait.
  if (Engine::SlotLease slot = engine.TrySlot(device)) {
    RunOn(engine.backend(device), std::move(slot));
  } else {
    engine.Submit(device, this);
    if (!Await(engine, device)) return WhyStopped(target_, limit_, control_);
  }
  if (!status_.ok()) return status_;
  return result_.Take({report_.saw_nan, report_.saw_inf, report_.rowwise,
                       report_.columnwise, device_, "", 1,
                       report_.replaced_globals, Transport::kLocal});
}

bool LocalCall::Await(Engine& engine, int device) {
  const CallControl::Stage stage(&control_, [this] {
    std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  });
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, limit_.deadline, [&] { return done_ || stop_; });
  if (done_) return true;
  lock.unlock();
  if (engine.Withdraw(device, this)) return false;
  // The call is running and reads the caller's memory. RunOn ends as soon as it
  // can.
  lock.lock();
  changed_.wait(lock, [&] { return done_; });
  return true;
}

void LocalCall::RunOn(Backend& backend, Engine::SlotLease slot) {
  device_ = backend.info().name;
  absl::Status status = Compute(backend);
  slot.Reset();
  // Notifies while holding the lock. Otherwise Await could return, and the call
  // be destroyed, before notify_all.
  std::lock_guard lock(mutex_);
  status_ = std::move(status);
  done_ = true;
  changed_.notify_all();
}

absl::Status LocalCall::Compute(Backend& backend) {
  const auto stopped = [&] { return Stopped(target_, limit_, control_); };
  if (auto s = stopped(); !s.ok()) return s;
  // The caller keeps the plan until the job is destroyed, so the pointer does
  // not own it.
  auto job = backend.Begin(
      std::shared_ptr<const Plan>(std::shared_ptr<const Plan>(), &plan_),
      std::move(lent_));
  if (!job.ok()) return FromJob(job.status(), device_);
  auto report = (*job)->Run();
  if (!report.ok()) return FromJob(report.status(), device_);
  if (auto s = stopped(); !s.ok()) return s;
  report_ = *std::move(report);
  return absl::OkStatus();
}

}  // namespace quantd::client
