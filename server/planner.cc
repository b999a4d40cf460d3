#include "server/planner.h"

#include <utility>

namespace quantd {

Planner::Planner() : thread_([this] { Run(); }) {}

Planner::~Planner() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void Planner::Submit(std::function<void()> work, bool is_long) {
  absl::MutexLock lock(&mutex_);
  (is_long ? long_ : queue_).push_back(std::move(work));
}

void Planner::Run() {
  const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !queue_.empty() || !long_.empty();
  };
  while (true) {
    std::function<void()> work;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&has_work));
      auto& next = queue_.empty() ? long_ : queue_;
      if (next.empty()) return;
      work = std::move(next.front());
      next.pop_front();
    }
    work();
  }
}

}  // namespace quantd
