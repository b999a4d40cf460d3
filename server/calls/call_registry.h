// Registry of all calls. Counts them, so that a shutdown can wait for them, and
// periodically looks for calls that take too long.
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_SERVER_CALLS_CALL_REGISTRY_H_
#define QUANTD_SERVER_CALLS_CALL_REGISTRY_H_

#include <algorithm>
#include <cstddef>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/gate/steady_time.h"

namespace quantd {

// A call as the registry sees it.
class WatchedCall {
 public:
  // Takes a reference. Returns false if the last one is gone.
  virtual bool TryRef() = 0;
  virtual void Unref() = 0;
  // Enforces time limits. Called periodically on the registry's thread.
  virtual void Watch(absl::Time now) = 0;

 protected:
  ~WatchedCall() = default;
};

class CallRegistry {
 public:
  // `now` is the clock passed to Watch.
  explicit CallRegistry(std::function<absl::Time()> now = SteadyNow)
      : now_(std::move(now)), watcher_([this] { RunWatch(); }) {}
  ~CallRegistry() {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
      stopped_.SignalAll();
    }
    watcher_.join();
  }

  // Count every call object, including those armed for calls to come.
  void Created() {
    absl::MutexLock lock(&mutex_);
    ++existing_;
  }
  void Destroyed() {
    absl::MutexLock lock(&mutex_);
    if (--existing_ == 0) fewer_.SignalAll();
  }
  // Also calls `look` periodically from now on.
  void OnWatch(std::function<void(absl::Time now)> look) {
    absl::MutexLock lock(&mutex_);
    look_ = std::move(look);
  }
  // Watches the call until it leaves.
  void Watch(WatchedCall* call) {
    absl::MutexLock lock(&mutex_);
    calls_.insert(call);
  }
  void Leave(WatchedCall* call) {
    absl::MutexLock lock(&mutex_);
    calls_.erase(call);
    if (calls_.empty()) fewer_.SignalAll();
  }

  // Counts a call that a shutdown must wait for. Returns false if the server is
  // draining and takes no more calls.
  bool Accept() {
    absl::MutexLock lock(&mutex_);
    if (draining_) last_refused_ = SteadyNow();
    if (!draining_) ++accepted_;
    return !draining_;
  }
  void Release() {
    absl::MutexLock lock(&mutex_);
    if (--accepted_ == 0) fewer_.SignalAll();
  }
  // Whether the server is draining, for a call that holds nothing and is over
  // at once.
  bool Refuses() {
    absl::MutexLock lock(&mutex_);
    if (draining_) last_refused_ = SteadyNow();
    return draining_;
  }

  // Accepts no calls from now on.
  void StartDraining() {
    absl::MutexLock lock(&mutex_);
    draining_ = true;
  }
  bool draining() const {
    absl::MutexLock lock(&mutex_);
    return draining_;
  }

  // kOpen: calls that have arrived. kExisting: also calls armed for arrivals;
  // some exist until the server stops.
  enum class Kind { kAccepted, kOpen, kExisting };
  // Waits until no such call is left. Returns false at `deadline`.
  bool WaitUntilNone(Kind kind, absl::Time deadline) {
    absl::MutexLock lock(&mutex_);
    return fewer_.WaitUntil(&mutex_, deadline, [&]() {
      return kind == Kind::kAccepted ? accepted_ == 0
             : kind == Kind::kOpen   ? calls_.empty()
                                     : existing_ == 0;
    });
  }
  // Waits until no call has been refused for `quiet`. Returns false at
  // `deadline`.
  bool WaitUntilQuiet(absl::Duration quiet, absl::Time deadline) {
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
  size_t accepted() const {
    absl::MutexLock lock(&mutex_);
    return accepted_;
  }

 private:
  static constexpr absl::Duration kWatchInterval = absl::Milliseconds(20);

  void RunWatch() {
    const auto stopping = [this]() { return stopping_; };
    std::vector<WatchedCall*> watched;
    absl::MutexLock lock(&mutex_);
    // Without calls it looks less often.
    while (!stopped_.WaitUntil(
        &mutex_, SteadyNow() + (calls_.empty() ? 5 : 1) * kWatchInterval,
        stopping)) {
      // A call leaves under this lock before it is freed. TryRef fails for one
      // that is about to leave.
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

  const std::function<absl::Time()> now_;
  mutable absl::Mutex mutex_;
  SteadyCondVar fewer_;  // a count reached zero
  SteadyCondVar stopped_;
  std::function<void(absl::Time now)> look_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<WatchedCall*> calls_ ABSL_GUARDED_BY(mutex_);
  size_t accepted_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t existing_ ABSL_GUARDED_BY(mutex_) = 0;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time last_refused_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread watcher_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_CALL_REGISTRY_H_
