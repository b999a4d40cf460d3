// A thread that plans requests with long lists. Planning one with many groups
// takes milliseconds, which network threads do not have and other callers
// should not wait for, so it also runs at lower priority.
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_SERVER_CALLS_PLANNING_THREAD_H_
#define QUANTD_SERVER_CALLS_PLANNING_THREAD_H_

#include <sys/resource.h>

#include <deque>
#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace quantd {

class PlanningThread {
 public:
  // Runs everything that is still queued.
  ~PlanningThread() {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    thread_.join();
  }

  // Runs `work` once, in order of submission. Queued work holds memory that the
  // gate granted, so the queue needs no bound of its own.
  void Submit(std::function<void()> work) {
    absl::MutexLock lock(&mutex_);
    queue_.push_back(std::move(work));
  }

 private:
  // A quarter of others' share where cores are short; a full core otherwise.
  static constexpr int kNice = 6;

  void Run() {
    // On Linux this sets the priority of this thread only. A failure does no
    // harm.
    setpriority(PRIO_PROCESS, 0, kNice);
    const auto has_work = [this]() { return stopping_ || !queue_.empty(); };
    absl::MutexLock lock(&mutex_);
    while (true) {
      mutex_.Await(absl::Condition(&has_work));
      if (queue_.empty()) return;
      const std::function<void()> work = std::move(queue_.front());
      queue_.pop_front();
      mutex_.Unlock();
      work();
      mutex_.Lock();
    }
  }

  absl::Mutex mutex_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_{[this] { Run(); }};
};

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_PLANNING_THREAD_H_
