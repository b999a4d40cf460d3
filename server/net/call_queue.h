// The queues in which gRPC delivers a call's arrival and its later events.
//
// Latency is lowest if one thread delivers everything (queue_threads.h). But
// the thread that delivers chunks also copies them, and one thread copies less
// than a network brings. So later events of streams have queues of their own,
// whose threads sleep while there are no streams.
#ifndef QUANTD_SERVER_NET_CALL_QUEUE_H_
#define QUANTD_SERVER_NET_CALL_QUEUE_H_

#include <grpcpp/completion_queue.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>

#include "absl/synchronization/mutex.h"

namespace quantd {

// Counts the calls that have events in a queue. Thread-safe.
class QueueUsers {
 public:
  void Enter() {
    if (count_.fetch_add(1) != 0) return;
    // With the lock, a thread that has just found no users waits before it is
    // woken.
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

// Tells whether there is only one caller to serve at a time.
//
// A lone caller's job is done soonest on the network thread that received it.
// With several callers that would delay the others' messages. If new calls are
// already waiting when such jobs end, several times in a row, there are other
// callers. Thread-safe.
class LoneCaller {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Called on a network thread, which then looks for new calls.
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

  // Nobody has looked yet for calls that arrived during the last job.
  std::atomic<bool> unseen_{false};
  std::atomic<int> at_hand_{0};  // calls in a row that came during a job
  // When there last were several callers; initially long ago.
  std::atomic<int64_t> crowded_{INT64_MIN / 2};
};

// The tag of an event in a completion queue. Must live until it is delivered,
// which happens on the queue's own thread.
struct CompletionTag {
  std::function<void(bool ok)> deliver;
};

// Set on a queue's thread that has been replaced because one delivery took too
// long.
inline thread_local bool thread_is_relieved = false;

struct CallQueue {
  grpc::ServerCompletionQueue* arrivals = nullptr;
  // May be the queue `arrivals`, too.
  grpc::ServerCompletionQueue* events = nullptr;
  // Null if the queue `events` always has a thread.
  QueueUsers* users = nullptr;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_CALL_QUEUE_H_
