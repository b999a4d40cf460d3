// Threads that understand requests. A request of many groups takes
// milliseconds, which the threads that serve the network do not have, and which
// those who send none should not wait for: such work has a thread of its own,
// of lower priority.
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_SERVER_CALLS_PLANNING_THREADS_H_
#define QUANTD_SERVER_CALLS_PLANNING_THREADS_H_

#include <deque>
#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace quantd {

class PlanningThreads {
 public:
  // Runs what is still queued, on destruction.
  PlanningThreads() = default;

  // `work` is run once. What queues here holds memory that the gate lent, so
  // the queue needs no bound of its own. Work of one kind runs in order.
  void Submit(std::function<void()> work, bool is_long) {
    (is_long ? long_ : short_).Push(std::move(work));
  }

 private:
  class Lane {
   public:
    explicit Lane(int nice) : thread_([this, nice] { Run(nice); }) {}
    ~Lane();
    void Push(std::function<void()> work);

   private:
    void Run(int nice);

    absl::Mutex mutex_;
    std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
    bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
    std::thread thread_;
  };

  // A quarter of what others get where cores are short, and all where not.
  static constexpr int kLongNice = 6;

  Lane short_{0};
  Lane long_{kLongNice};
};

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_PLANNING_THREADS_H_
