#include "client/call/call_control.h"

#include <utility>

namespace quantd::client {

void CallControl::Cancel() {
  std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (stop_) stop_();
  changed_.notify_all();
}

bool CallControl::cancelled() const {
  std::lock_guard lock(mutex_);
  return cancelled_;
}

bool CallControl::SleepUntil(Time until) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_until(lock, until, [&] { return cancelled_; });
}

void CallControl::WaitForWake(Time until) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, until, [&] { return cancelled_ || woken_; });
  woken_ = false;
}

void CallControl::Wake() {
  std::lock_guard lock(mutex_);
  woken_ = true;
  changed_.notify_all();
}

CallControl::Stage::Stage(CallControl* control, std::function<void()> stop)
    : control_(control) {
  std::lock_guard lock(control_->mutex_);
  control_->stop_ = std::move(stop);
  if (control_->cancelled_) control_->stop_();
}

CallControl::Stage::~Stage() {
  std::lock_guard lock(control_->mutex_);
  control_->stop_ = nullptr;
}

}  // namespace quantd::client
