// Threads that share the row ranges of running jobs.
#ifndef QUANTD_KERNELS_CPU_THREAD_POOL_H_
#define QUANTD_KERNELS_CPU_THREAD_POOL_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace quantd::cpu {

// Cores this process may use.
int UsableCores();

class ThreadPool {
 public:
  // `threads` counts the caller of ParallelFor: 1 starts none.
  explicit ThreadPool(int threads);
  ~ThreadPool();

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls fn(i) for every i in [0, n), some on other threads, and returns when
  // all are done. May be called from several threads at once.
  void ParallelFor(int64_t n, const std::function<void(int64_t)>& fn);

 private:
  struct Loop;
  void Work();

  absl::Mutex mutex_;
  std::deque<std::shared_ptr<Loop>> loops_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> workers_;
};

}  // namespace quantd::cpu

#endif  // QUANTD_KERNELS_CPU_THREAD_POOL_H_
