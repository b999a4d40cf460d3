// Calls that wait for an event of their client's.
//
// The server looks at events from time to time; no stream of a GPU waits for
// one. A stream could not be made to stop, and an event may never pass: that of
// a process that was killed, or of one that wants the stream to stand still. So
// a waiting call holds no slot and no memory of a device, and leaves when it is
// over.
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
    // Whether there is nothing to wait for any more. Asked some thousand times
    // a second, so that it must be quick.
    virtual bool WaitIsOver() = 0;
    // Once, after that; it must not take long.
    virtual void OnWaitOver() = 0;
  };

  EventWaits() = default;
  // Nobody may wait.
  ~EventWaits() {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    thread_.join();
  }

  // Until WaitIsOver.
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
