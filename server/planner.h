// A thread that understands requests. A request of many groups takes
// milliseconds, which the threads that serve the network do not have.
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_SERVER_PLANNER_H_
#define QUANTD_SERVER_PLANNER_H_

#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace quantd {

class Planner {
 public:
  Planner();
  // Runs what is still queued.
  ~Planner();

  // `work` is run once. What queues here holds memory that the ledger lent, so
  // the queue needs no bound of its own. Long work, that of many groups, waits
  // until no other does: what others ask for takes microseconds.
  void Submit(std::function<void()> work, bool is_long);

 private:
  void Run();

  absl::Mutex mutex_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::function<void()>> long_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_PLANNER_H_
