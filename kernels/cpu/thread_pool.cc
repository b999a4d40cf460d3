#include "kernels/cpu/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <atomic>

namespace quantd::cpu {

int UsableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    return std::max(1, CPU_COUNT(&set));
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

struct ThreadPool::Loop {
  int64_t n;
  const std::function<void(int64_t)>* fn;  // the caller waits, so it lives
  std::atomic<int64_t> next = 0;
  std::atomic<int64_t> done = 0;
  absl::Mutex mutex;

  // Takes indices until there are none; true if any was left to take.
  bool Help() {
    int64_t mine = 0;
    for (int64_t i; (i = next.fetch_add(1)) < n; ++mine) (*fn)(i);
    if (mine > 0) {
      // The waiter reads `done` under the mutex.
      absl::MutexLock lock(&mutex);
      done += mine;
    }
    return mine > 0;
  }
};

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { Work(); });
}

ThreadPool::~ThreadPool() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  for (std::thread& t : workers_) t.join();
}

void ThreadPool::Work() {
  const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stop_ || !loops_.empty();
  };
  while (true) {
    std::shared_ptr<Loop> loop;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&ready));
      if (stop_) return;
      loop = loops_.front();
    }
    loop->Help();
    absl::MutexLock lock(&mutex_);
    const auto it = std::find(loops_.begin(), loops_.end(), loop);
    if (it != loops_.end()) loops_.erase(it);
  }
}

void ThreadPool::ParallelFor(int64_t n,
                             const std::function<void(int64_t)>& fn) {
  if (n <= 1 || workers_.empty()) {
    for (int64_t i = 0; i < n; ++i) fn(i);
    return;
  }
  const auto loop = std::make_shared<Loop>();
  loop->n = n;
  loop->fn = &fn;
  {
    absl::MutexLock lock(&mutex_);
    loops_.push_back(loop);
  }
  loop->Help();
  {
    absl::MutexLock lock(&mutex_);
    const auto it = std::find(loops_.begin(), loops_.end(), loop);
    if (it != loops_.end()) loops_.erase(it);
  }
  const auto finished = [&loop] { return loop->done == loop->n; };
  absl::MutexLock lock(&loop->mutex);
  loop->mutex.Await(absl::Condition(&finished));
}

}  // namespace quantd::cpu
