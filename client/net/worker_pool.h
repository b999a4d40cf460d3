// A pool of threads with a bound on the number of tasks.
#ifndef QUANTD_CLIENT_NET_WORKER_POOL_H_
#define QUANTD_CLIENT_NET_WORKER_POOL_H_

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace quantd::client {

// A pool that starts a thread only if none is idle when a task arrives.
// Thread-safe.
class WorkerPool {
 public:
  explicit WorkerPool(int limit) : limit_(limit) {}
  // Waits until all accepted tasks have finished.
  ~WorkerPool();

  // Accepts `task` as soon as fewer than `limit` tasks are in progress. Returns
  // false if that takes until `deadline`.
  bool Run(std::chrono::system_clock::time_point deadline,
           std::function<void()> task);

 private:
  void Work();
  // Runs the first task, without the lock.
  void RunNext(std::unique_lock<std::mutex>* lock);

  const int limit_;
  std::mutex mutex_;
  std::condition_variable place_free_;
  std::condition_variable task_there_;
  std::deque<std::function<void()>> tasks_;
  std::vector<std::thread> threads_;
  int under_way_ = 0;  // tasks accepted and not finished
  int idle_ = 0;
  bool closing_ = false;
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_WORKER_POOL_H_
