// Threads that share the pieces of running jobs.
#ifndef QUANTD_KERNELS_CPU_THREAD_POOL_H_
#define QUANTD_KERNELS_CPU_THREAD_POOL_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace quantd::cpu {

// The number of cores that this process may use.
int UsableCores();

class ThreadPool {
 public:
  // `threads` includes the caller of ParallelFor, so 1 starts no thread.
  explicit ThreadPool(int threads);
  ~ThreadPool();

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls fn(i) for every i in [0, n), some on other threads, and returns when
  // all are done. May be called from several threads at once.
  void ParallelFor(int64_t n, const std::function<void(int64_t)>& fn);

 private:
  struct Loop;
  void Work();

  void Forget(const std::shared_ptr<Loop>& loop);

  std::mutex mutex_;  // guards loops_ and stop_
  std::condition_variable ready_;
  std::deque<std::shared_ptr<Loop>> loops_;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace quantd::cpu

#endif  // QUANTD_KERNELS_CPU_THREAD_POOL_H_
