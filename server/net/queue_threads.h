// Threads that deliver the events of gRPC's completion queues.
//
// A thread that asks its queue for the next event reads sockets for gRPC until
// there is one. If what it reads belongs to another queue, it wakes that
// queue's thread. A single thread that reads and delivers wakes nobody, which
// gives the lowest latency, but many large messages are too much for it. So up
// to `readers` more threads read sockets while these are busy. Waking a
// sleeping thread takes time: with `busy_poll` a thread polls that long first.
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_SERVER_NET_QUEUE_THREADS_H_
#define QUANTD_SERVER_NET_QUEUE_THREADS_H_

#include <grpcpp/completion_queue.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/gate/steady_time.h"
#include "server/net/call_queue.h"

namespace quantd {

// Number of readers from now on. `reading` is the number now; `awake` threads
// read or deliver, and kept `busy` cores busy. One more if all are busy; one
// less if the remaining ones would be at most half busy.
inline int Readers(int reading, int most, int awake, double busy) {
  constexpr double kBusy = 0.9;
  if (busy > kBusy * awake) return std::min(reading + 1, most);
  return std::max(reading - (busy < kBusy / 2 * (awake - 1) ? 1 : 0), 0);
}

class QueueThreads {
 public:
  QueueThreads(LoneCaller* lone, int readers,
               std::chrono::microseconds busy_poll);
  ~QueueThreads() { Join(); }

  // Gives a queue a thread, or a new one if its own does not return from a
  // delivery. With `users`, which must outlive this, the queue is polled only
  // while it has users.
  void Add(grpc::CompletionQueue* queue, QueueUsers* users = nullptr);
  // Adjusts the number of readers. Called periodically.
  void Look();
  // The time of the last Look; at first that of the construction.
  absl::Time looked() const {
    absl::MutexLock lock(&mutex_);
    return looked_;
  }
  // Waits for all threads, which end with their queues.
  void Join();

 private:
  // A queue and its thread.
  struct Seat {
    Seat(grpc::CompletionQueue* q, QueueUsers* u) : queue(q), users(u) {}
    grpc::CompletionQueue* const queue;
    QueueUsers* const users;
    std::thread thread;
    clockid_t clock = 0;
    absl::Duration used;  // processor time at the last look
  };
  void Run(const Seat& seat);
  bool Ask(const Seat& seat, void** tag, bool* ok);

  LoneCaller* const lone_;
  const std::chrono::microseconds busy_poll_;
  mutable absl::Mutex mutex_;
  std::vector<std::unique_ptr<Seat>> seats_ ABSL_GUARDED_BY(mutex_);
  absl::Time looked_ ABSL_GUARDED_BY(mutex_) = SteadyNow();
  int reading_ ABSL_GUARDED_BY(mutex_) = 0;
  bool joined_ ABSL_GUARDED_BY(mutex_) = false;
  // Readers read sockets by asking this queue, which never has events.
  grpc::CompletionQueue nothing_;
  std::deque<QueueUsers> readers_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_QUEUE_THREADS_H_
