#include "server/memory/event_waits.h"

#include <algorithm>
#include <chrono>

namespace quantd {
namespace {

constexpr std::chrono::microseconds kBetweenLooks{50};

}  // namespace

EventWaits::~EventWaits() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void EventWaits::Add(Waiter* waiter) {
  absl::MutexLock lock(&mutex_);
  added_.push_back(waiter);
}

void EventWaits::Run() {
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
    if (!waiting.empty()) std::this_thread::sleep_for(kBetweenLooks);
  }
}

}  // namespace quantd
