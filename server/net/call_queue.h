// The queue to which gRPC delivers a call's arrival, and then its events.
//
// One thread for all calls answers a caller who waits soonest
// (queue_threads.h). But a chunk of a stream is copied where it is delivered,
// and one thread copies less than a network brings: so streams arrive with all
// others and have queues of their own for the rest, whose threads ask nothing
// while there are none.
#ifndef QUANTD_SERVER_NET_CALL_QUEUE_H_
#define QUANTD_SERVER_NET_CALL_QUEUE_H_

#include <grpcpp/completion_queue.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

#include "absl/synchronization/mutex.h"

namespace quantd {

// The calls that have events in a queue. Thread-safe.
class QueueUsers {
 public:
  void Enter() {
    if (count_.fetch_add(1) != 0) return;
    // A thread that has just found none is waiting before it is woken.
    absl::MutexLock lock(&mutex_);
    come_.SignalAll();
  }
  void Leave() { count_.fetch_sub(1); }
  bool any() const { return count_ != 0; }
  void AwaitAny() {
    absl::MutexLock lock(&mutex_);
    while (!any()) come_.Wait(&mutex_);
  }

 private:
  std::atomic<int> count_{0};
  absl::Mutex mutex_;
  absl::CondVar come_;
};

// Whether one caller at a time is all there is to serve.
//
// A single caller's job is soonest done where its message came, on the
// network's thread. With several callers it would keep the others' messages
// waiting, and that thread sees nothing of them meanwhile. If new calls are
// already waiting when such jobs end, several times in a row, there are other
// callers.
//
// Thread-safe.
class LoneCaller {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // On a network thread, which then looks for what has come.
  void JobEnds() { unseen_ = true; }
  bool looks() const { return unseen_; }
  void NothingHasCome() { unseen_ = false; }
  void CallArrives(Time now) {
    if (!unseen_) {
      at_hand_ = 0;
    } else if (++at_hand_ >= kNoAccident) {
      crowded_ = now.time_since_epoch().count();
    }
  }

  bool IsLikely(Time now) const {
    return now - Time(Time::duration(crowded_)) > kMemory;
  }

 private:
  static constexpr int kNoAccident = 3;
  static constexpr std::chrono::milliseconds kMemory{100};

  std::atomic<bool> unseen_{false};  // what came during the last job
  std::atomic<int> at_hand_{0};      // calls in a row that were
  std::atomic<int64_t> crowded_{INT64_MIN / 2};  // when it last was: long ago
};

// What a completion queue hands back, for everything that waits on ours.
// Lives until it is delivered. Delivered on the queue's own thread.
struct CompletionTag {
  std::function<void(bool ok)> deliver;
};

// Set on a thread of a queue that was so long at one tag that another thread
// has taken its place.
inline thread_local bool thread_is_relieved = false;

struct CallQueue {
  grpc::ServerCompletionQueue* arrivals = nullptr;
  // May be the same.
  grpc::ServerCompletionQueue* events = nullptr;
  // Null: somebody asks `events` at all times.
  QueueUsers* users = nullptr;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_CALL_QUEUE_H_
