// Where gRPC delivers what happens to a call: its arrival, and then its events.
//
// gRPC reads sockets on whichever thread asks a completion queue, and wakes the
// thread of the queue that what came is for. One thread for all calls wakes
// nobody, and answers a caller who waits soonest. But whoever delivers a chunk
// of a stream copies it, and one thread copies less than a network brings: so
// streams arrive with all others and have queues of their own for the rest,
// whose threads ask nothing while there are no streams.
#ifndef QUANTD_SERVER_NET_CALL_QUEUE_H_
#define QUANTD_SERVER_NET_CALL_QUEUE_H_

#include <grpcpp/completion_queue.h>

#include <atomic>

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

struct CallQueue {
  grpc::ServerCompletionQueue* arrivals = nullptr;
  // May be the same.
  grpc::ServerCompletionQueue* events = nullptr;
  // Null: somebody asks `events` at all times.
  QueueUsers* users = nullptr;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_CALL_QUEUE_H_
