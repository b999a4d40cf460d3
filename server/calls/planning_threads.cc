#include "server/calls/planning_threads.h"

#include <sys/resource.h>

#include <utility>

namespace quantd {

PlanningThreads::Lane::~Lane() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void PlanningThreads::Lane::Push(std::function<void()> work) {
  absl::MutexLock lock(&mutex_);
  queue_.push_back(std::move(work));
}

void PlanningThreads::Lane::Run(int nice) {
  // Of this thread alone, on Linux. Where it is forbidden nothing is lost.
  if (nice != 0) setpriority(PRIO_PROCESS, 0, nice);
  const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !queue_.empty();
  };
  while (true) {
    std::function<void()> work;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&has_work));
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace quantd
