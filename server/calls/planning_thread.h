// A thread that understands requests with long lists. One of many groups takes
// milliseconds, which the threads that serve the network do not have, and which
// those who send none should not wait for: so it has lower priority, too.
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_SERVER_CALLS_PLANNING_THREAD_H_
#define QUANTD_SERVER_CALLS_PLANNING_THREAD_H_

#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace quantd {

class PlanningThread {
 public:
  PlanningThread() = default;
  // Runs what is still queued.
  ~PlanningThread();

  // `work` is run once, in order. What queues here holds memory that the gate
  // lent, so the queue needs no bound of its own.
  void Submit(std::function<void()> work);

 private:
  void Run();

  absl::Mutex mutex_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_{[this] { Run(); }};
};

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_PLANNING_THREAD_H_
