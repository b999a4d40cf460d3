#include "server/calls/call_registry.h"

#include <algorithm>
#include <vector>

#include "absl/time/clock.h"
#include "server/gate/steady_time.h"

namespace quantd {
namespace {

constexpr absl::Duration kWatchInterval = absl::Milliseconds(20);

}  // namespace

CallRegistry::CallRegistry(std::function<absl::Time()> now)
    : now_(std::move(now)) {
  watcher_ = std::thread([this] { RunWatch(); });
}

CallRegistry::~CallRegistry() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    stopped_.SignalAll();
  }
  watcher_.join();
}

void CallRegistry::Created() {
  absl::MutexLock lock(&mutex_);
  ++existing_;
}

void CallRegistry::Destroyed() {
  absl::MutexLock lock(&mutex_);
  if (--existing_ == 0) fewer_.SignalAll();
}

void CallRegistry::OnWatch(std::function<void(absl::Time now)> look) {
  absl::MutexLock lock(&mutex_);
  look_ = std::move(look);
}

void CallRegistry::Watch(WatchedCall* call) {
  absl::MutexLock lock(&mutex_);
  calls_.insert(call);
}

void CallRegistry::Leave(WatchedCall* call) {
  absl::MutexLock lock(&mutex_);
  calls_.erase(call);
  if (calls_.empty()) fewer_.SignalAll();
}

bool CallRegistry::Accept() {
  absl::MutexLock lock(&mutex_);
  if (draining_) {
    last_refused_ = SteadyNow();
    return false;
  }
  ++accepted_;
  return true;
}

void CallRegistry::Release() {
  absl::MutexLock lock(&mutex_);
  if (--accepted_ == 0) fewer_.SignalAll();
}

bool CallRegistry::Refuses() {
  absl::MutexLock lock(&mutex_);
  if (draining_) last_refused_ = SteadyNow();
  return draining_;
}

void CallRegistry::StartDraining() {
  absl::MutexLock lock(&mutex_);
  draining_ = true;
}

bool CallRegistry::draining() const {
  absl::MutexLock lock(&mutex_);
  return draining_;
}

bool CallRegistry::WaitUntilNone(Kind kind, absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  return fewer_.WaitUntil(&mutex_, deadline,
                          [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                            return kind == Kind::kAccepted ? accepted_ == 0
                                   : kind == Kind::kOpen   ? calls_.empty()
                                                           : existing_ == 0;
                          });
}

bool CallRegistry::WaitUntilQuiet(absl::Duration quiet, absl::Time deadline) {
  absl::Time since = SteadyNow();
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      since = std::max(since, last_refused_);
    }
    const absl::Time now = SteadyNow();
    if (now >= since + quiet) return true;
    if (now >= deadline) return false;
    absl::SleepFor(std::min(since + quiet, deadline) - now);
  }
}

size_t CallRegistry::accepted() const {
  absl::MutexLock lock(&mutex_);
  return accepted_;
}

void CallRegistry::RunWatch() {
  const auto stopping = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_;
  };
  std::vector<WatchedCall*> watched;
  absl::MutexLock lock(&mutex_);
  while (!stopped_.WaitUntil(&mutex_, SteadyNow() + kWatchInterval, stopping)) {
    // A call leaves under this lock before it is freed. One that is about to
    // must not come back to life.
    for (WatchedCall* call : calls_) {
      if (call->TryRef()) watched.push_back(call);
    }
    const auto look = look_;
    mutex_.Unlock();
    const absl::Time now = now_();
    for (WatchedCall* call : watched) {
      call->Watch(now);
      call->Unref();
    }
    watched.clear();
    if (look) look(now);
    mutex_.Lock();
  }
}

}  // namespace quantd
