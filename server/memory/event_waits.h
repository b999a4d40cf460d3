// Calls that wait for an event of their client.
//
// The server polls events; no GPU stream waits for one. A stream could not be
// stopped, and an event may never pass if its process was killed or is hostile.
// So a waiting call holds no slot and no device memory, and can leave at any
// time.
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_SERVER_MEMORY_EVENT_WAITS_H_
#define QUANTD_SERVER_MEMORY_EVENT_WAITS_H_

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace quantd {

class EventWaits {
 public:
  class Waiter {
   public:
    virtual ~Waiter() = default;
    // Returns whether the wait is over. Called thousands of times a second, so
    // it must be quick.
    virtual bool WaitIsOver() = 0;
    // Called once after WaitIsOver; must be quick.
    virtual void OnWaitOver() = 0;
  };

  EventWaits() = default;
  // There must be no waiters left.
  ~EventWaits() {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    thread_.join();
  }

  // Calls WaitIsOver until it returns true.
  void Add(Waiter* waiter) {
    absl::MutexLock lock(&mutex_);
    added_.push_back(waiter);
  }

 private:
  void Run() {
    std::vector<Waiter*> waiting;
    while (true) {
      {
        const auto has_work = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          return stopping_ || !added_.empty() || !waiting.empty();
        };
        absl::MutexLock lock(&mutex_);
        mutex_.Await(absl::Condition(&has_work));
        waiting.insert(waiting.end(), added_.begin(), added_.end());
        added_.clear();
        if (waiting.empty()) return;
      }
      const auto over =
          std::stable_partition(waiting.begin(), waiting.end(),
                                [](Waiter* w) { return !w->WaitIsOver(); });
      const std::vector<Waiter*> done(over, waiting.end());
      waiting.erase(over, waiting.end());
      for (Waiter* waiter : done) waiter->OnWaitOver();
      if (!waiting.empty()) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    }
  }

  absl::Mutex mutex_;
  std::vector<Waiter*> added_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_{[this] { Run(); }};
};

}  // namespace quantd

#endif  // QUANTD_SERVER_MEMORY_EVENT_WAITS_H_
