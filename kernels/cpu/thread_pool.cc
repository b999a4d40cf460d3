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
  const std::function<void(int64_t)>* fn;  // owned by the waiting caller
  std::atomic<int64_t> next = 0;
  std::mutex mutex;
  std::condition_variable finished;
  int64_t done = 0;  // guarded by mutex

  // Runs fn for one index after another until no index is left.
  void Help() {
    int64_t mine = 0;
    for (int64_t i; (i = next.fetch_add(1)) < n; ++mine) (*fn)(i);
    if (mine == 0) return;
    std::lock_guard lock(mutex);
    done += mine;
    if (done == n) finished.notify_one();
  }

  void Wait() {
    std::unique_lock lock(mutex);
    finished.wait(lock, [this] { return done == n; });
  }
};

ThreadPool::ThreadPool(int threads) {
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { Work(); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  ready_.notify_all();
  for (std::thread& t : workers_) t.join();
}

void ThreadPool::Work() {
  while (true) {
    std::shared_ptr<Loop> loop;
    {
      std::unique_lock lock(mutex_);
      ready_.wait(lock, [this] { return stop_ || !loops_.empty(); });
      if (stop_) return;
      loop = loops_.front();
    }
    loop->Help();
    Forget(loop);
  }
}

void ThreadPool::Forget(const std::shared_ptr<Loop>& loop) {
  std::lock_guard lock(mutex_);
  const auto it = std::find(loops_.begin(), loops_.end(), loop);
  if (it != loops_.end()) loops_.erase(it);
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
    std::lock_guard lock(mutex_);
    loops_.push_back(loop);
  }
  ready_.notify_all();
  loop->Help();
  Forget(loop);
  loop->Wait();
}

}  // namespace quantd::cpu
