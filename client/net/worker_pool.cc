#include "client/net/worker_pool.h"

#include <system_error>
#include <utility>

namespace quantd::client {

WorkerPool::~WorkerPool() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  task_there_.notify_all();
  for (std::thread& t : threads_) t.join();
}

bool WorkerPool::Run(std::chrono::system_clock::time_point deadline,
                     std::function<void()> task) {
  std::unique_lock lock(mutex_);
  if (!place_free_.wait_until(lock, deadline,
                              [&] { return under_way_ < limit_; })) {
    return false;
  }
  ++under_way_;
  tasks_.push_back(std::move(task));
  if (idle_ < static_cast<int>(tasks_.size()) &&
      static_cast<int>(threads_.size()) < limit_) {
    try {
      threads_.emplace_back([this] { Work(); });
    } catch (const std::system_error&) {
      // The machine has no more threads, so one of the pool runs the task
      // later. If the pool has none, this thread runs it.
      if (threads_.empty()) RunNext(&lock);
    }
  } else {
    task_there_.notify_one();
  }
  return true;
}

void WorkerPool::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    task_there_.wait(lock, [&] { return closing_ || !tasks_.empty(); });
    --idle_;
    if (tasks_.empty()) return;
    RunNext(&lock);
  }
}

void WorkerPool::RunNext(std::unique_lock<std::mutex>* lock) {
  std::function<void()> task = std::move(tasks_.front());
  tasks_.pop_front();
  lock->unlock();
  task();
  task = nullptr;
  lock->lock();
  --under_way_;
  place_free_.notify_one();
}

}  // namespace quantd::client
