// A thread that runs work in order, for what network threads have no time for:
// planning requests with long lists, and polling events.
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_SERVER_CALLS_WORKER_THREAD_H_
#define QUANTD_SERVER_CALLS_WORKER_THREAD_H_

#include <sys/resource.h>

#include <chrono>
#include <deque>
#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace quantd {

class WorkerThread {
 public:
  using Work = std::function<void()>;

  // A quarter of others' share where cores are short; a full core otherwise.
  static constexpr int kNice = 6;

  // `nice` lowers the thread's priority.
  explicit WorkerThread(int nice = 0) : thread_([this, nice] { Run(nice); }) {}
  // Runs everything that is still queued.
  ~WorkerThread() {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    thread_.join();
  }

  // Runs `work` once, in order of submission. Queued work belongs to calls that
  // the gate admitted, so the queue needs no bound of its own.
  void Submit(Work work) {
    absl::MutexLock lock(&mutex_);
    queue_.push_back(std::move(work));
  }
  // Runs `work` in the next round, after a short pause. Work that polls submits
  // itself again.
  void SubmitLater(Work work) {
    absl::MutexLock lock(&mutex_);
    later_.push_back(std::move(work));
  }

 private:
  static constexpr std::chrono::microseconds kPause{50};

  void Run(int nice) {
    // On Linux this sets the priority of this thread only. A failure does no
    // harm.
    setpriority(PRIO_PROCESS, 0, nice);
    const auto has_work = [this]() {
      return stopping_ || !queue_.empty() || !later_.empty();
    };
    absl::MutexLock lock(&mutex_);
    while (true) {
      mutex_.Await(absl::Condition(&has_work));
      Work work;
      if (!queue_.empty()) {
        work = std::move(queue_.front());
        queue_.pop_front();
      } else if (!later_.empty()) {
        queue_.swap(later_);
        work = [] { std::this_thread::sleep_for(kPause); };
      } else {
        return;
      }
      mutex_.Unlock();
      work();
      work = nullptr;
      mutex_.Lock();
    }
  }

  absl::Mutex mutex_;
  std::deque<Work> queue_ ABSL_GUARDED_BY(mutex_);
  std::deque<Work> later_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_WORKER_THREAD_H_
