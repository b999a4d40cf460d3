#include "server/calls/planning_thread.h"

#include <sys/resource.h>

#include <utility>

namespace quantd {
namespace {

// A quarter of what others get where cores are short, and all where not.
constexpr int kNice = 6;

}  // namespace

PlanningThread::~PlanningThread() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void PlanningThread::Submit(std::function<void()> work) {
  absl::MutexLock lock(&mutex_);
  queue_.push_back(std::move(work));
}

void PlanningThread::Run() {
  // Of this thread alone, on Linux. Where it is forbidden nothing is lost.
  setpriority(PRIO_PROCESS, 0, kNice);
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
