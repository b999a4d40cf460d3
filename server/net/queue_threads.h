// The threads that deliver what gRPC's completion queues bring.
//
// A thread asks its queue for the next event, and gRPC has it read sockets
// until there is one, and wakes the thread of the queue that what came is for.
// One thread that reads and delivers wakes nobody, which is what a caller who
// waits wants; of many large messages it is not enough. So up to `readers` more
// read sockets while these are busy. A thread that sleeps must be woken, and an
// idle core takes its time: with `busy_poll` a thread asks again and again for
// so long after an event, before it sleeps.
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

// How many threads read from now on, where `reading` do and `awake` deliver or
// read, which have kept `busy` cores busy: one more if all are busy, one less
// if those that would be left have half of that to do.
inline int Readers(int reading, int most, int awake, double busy) {
  constexpr double kBusy = 0.9;
  if (busy > kBusy * awake) return std::min(reading + 1, most);
  return std::max(reading - (busy < kBusy / 2 * (awake - 1) ? 1 : 0), 0);
}

class QueueThreads {
 public:
  QueueThreads(LoneCaller* lone, int readers,
               std::chrono::microseconds busy_poll);
  ~QueueThreads();

  // Gives a queue a thread, or another one if its own does not come back from
  // what it delivered. With `users`, which must outlive this, it asks the queue
  // only while there are any.
  void Add(grpc::CompletionQueue* queue, QueueUsers* users = nullptr);
  // Lets as many readers read as there should be. Comes every so often.
  void Look();
  // Waits for all threads, which end with their queues.
  void Join();

 private:
  // A queue and one thread of it.
  struct Seat {
    Seat(grpc::CompletionQueue* q, QueueUsers* u) : queue(q), users(u) {}
    grpc::CompletionQueue* const queue;
    QueueUsers* const users;
    std::thread thread;
    clockid_t clock = 0;
    absl::Duration used;  // processor time, as of the last look
  };
  void Run(const Seat& seat);
  bool Ask(const Seat& seat, void** tag, bool* ok);
  static bool AskForUsers(const Seat& seat, void** tag, bool* ok);

  LoneCaller* const lone_;
  const std::chrono::microseconds busy_poll_;
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<Seat>> seats_ ABSL_GUARDED_BY(mutex_);
  absl::Time looked_ ABSL_GUARDED_BY(mutex_) = SteadyNow();
  int reading_ ABSL_GUARDED_BY(mutex_) = 0;
  bool joined_ ABSL_GUARDED_BY(mutex_) = false;
  // Readers ask a queue in which nothing ever is, while they have users.
  grpc::CompletionQueue nothing_;
  std::deque<QueueUsers> readers_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_QUEUE_THREADS_H_
