#include "client/call/reduction.h"

#include <chrono>
#include <utility>
#include <variant>

#include "absl/status/status.h"

namespace quantd::client {

CopyAmax MaximaOf(const QuantizeOptions& o, const Result& found) {
  const auto values = [&](bool wanted, bool columnwise) {
    if (!wanted) return std::vector<float>();
    const auto all = found.amaxes(AmaxKindOf(o, columnwise));
    return std::vector<float>(all.begin(), all.end());
  };
  return {values(HasRowwise(o.usage), false),
          values(HasColumnwise(o.usage), true)};
}

void Reduction::Found(const CopyAmax& maxima) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(found_, true)) return;
  }
  tell_(maxima);
}

bool Reduction::found() const {
  const std::lock_guard lock(mutex_);
  return found_;
}

void Reduction::Answer(absl::StatusOr<CopyAmax> reduced) {
  const std::lock_guard lock(mutex_);
  if (answer_) return;
  answer_ = std::move(reduced);
  if (wake_) wake_();
}

std::optional<absl::StatusOr<CopyAmax>> Reduction::answer() const {
  const std::lock_guard lock(mutex_);
  return answer_;
}

absl::StatusOr<CopyAmax> Reduction::Await(const CallLimit& limit,
                                          CallControl& control) {
  const Watch watch(this, [&] { control.Wake(); });
  for (;;) {
    if (control.cancelled()) {
      return absl::CancelledError("cancelled by the caller");
    }
    if (auto reduced = answer()) return *std::move(reduced);
    if (std::chrono::system_clock::now() >= limit.deadline) {
      return absl::DeadlineExceededError(
          "the reduced amax did not arrive before the deadline");
    }
    control.WaitForWake(limit.deadline);
  }
}

Reduction::Watch::Watch(Reduction* reduction, std::function<void()> wake)
    : reduction_(reduction) {
  const std::lock_guard lock(reduction_->mutex_);
  reduction_->wake_ = std::move(wake);
  if (reduction_->answer_) reduction_->wake_();
}

Reduction::Watch::~Watch() {
  const std::lock_guard lock(reduction_->mutex_);
  reduction_->wake_ = nullptr;
}

absl::StatusOr<Result> RunInTwo(
    const Call& call, Reduction& reduction,
    absl::FunctionRef<absl::StatusOr<Result>(const Call&)> run) {
  if (!reduction.found()) {
    const auto plan = MaximaPlan(call.plan);
    if (!plan.ok()) return plan.status();
    const auto found = run({*plan,
                            call.payload,
                            {},
                            {.wait = call.events.wait},
                            call.limit,
                            call.control});
    if (!found.ok()) return found.status();
    reduction.Found(
        MaximaOf(std::get<QuantizeOptions>(call.plan.options()), *found));
  }
  const auto reduced = reduction.Await(call.limit, call.control);
  if (!reduced.ok()) return reduced.status();
  const auto plan = SettledPlan(call.plan, *reduced);
  if (!plan.ok()) return plan.status();
  return run(
      {*plan, call.payload, call.into, call.events, call.limit, call.control});
}

}  // namespace quantd::client
