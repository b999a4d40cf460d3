#include "server/call_registry.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "server/call.h"

namespace quantd {
namespace {

constexpr absl::Duration kWatchInterval = absl::Milliseconds(200);

}  // namespace

CallRegistry::CallRegistry() {
  watcher_ = std::thread([this] { Watch(); });
}

CallRegistry::~CallRegistry() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  watcher_.join();
}

void CallRegistry::Created() {
  absl::MutexLock lock(&mutex_);
  ++existing_;
}

void CallRegistry::Destroyed() {
  absl::MutexLock lock(&mutex_);
  --existing_;
}

bool CallRegistry::Accept(Call* call) {
  absl::MutexLock lock(&mutex_);
  if (draining_) {
    last_refused_ = absl::Now();
    return false;
  }
  calls_.insert(call);
  return true;
}

bool CallRegistry::Refuses() {
  absl::MutexLock lock(&mutex_);
  if (draining_) last_refused_ = absl::Now();
  return draining_;
}

void CallRegistry::Leave(Call* call) {
  absl::MutexLock lock(&mutex_);
  calls_.erase(call);
}

void CallRegistry::StartDraining() {
  absl::MutexLock lock(&mutex_);
  draining_ = true;
}

bool CallRegistry::draining() const {
  absl::MutexLock lock(&mutex_);
  return draining_;
}

bool CallRegistry::WaitUntilNoneAccepted(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithDeadline(
      absl::Condition(this, &CallRegistry::NoneAccepted), deadline);
}

bool CallRegistry::WaitUntilQuiet(absl::Duration quiet, absl::Time deadline) {
  absl::Time since = absl::Now();
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      since = std::max(since, last_refused_);
    }
    const absl::Time now = absl::Now();
    if (now >= since + quiet) return true;
    if (now >= deadline) return false;
    absl::SleepFor(std::min(since + quiet, deadline) - now);
  }
}

bool CallRegistry::WaitUntilNoneExists(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  return mutex_.AwaitWithDeadline(
      absl::Condition(this, &CallRegistry::NoneExists), deadline);
}

size_t CallRegistry::accepted() const {
  absl::MutexLock lock(&mutex_);
  return calls_.size();
}

void CallRegistry::Watch() {
  absl::MutexLock lock(&mutex_);
  while (
      !mutex_.AwaitWithTimeout(absl::Condition(&stopping_), kWatchInterval)) {
    const absl::Time now = absl::Now();
    // A call leaves under this lock before it is freed, and what it does here
    // never comes back for the lock.
    for (Call* call : calls_) call->EnforceReceiveTime(now);
  }
}

}  // namespace quantd
