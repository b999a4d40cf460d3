// The threads that deliver what gRPC's completion queues bring.
//
// A thread asks its queue for the next event, and gRPC has it read sockets
// until there is one. It comes back only when the sockets have no more, and a
// peer that sends faster than gRPC parses always has: ends of calls and
// arrivals of others, a flood's own too, are left lying, and what would end the
// flood is never found out. So one more thread looks for threads that are
// caught like this, and delivers in their place. It reads no sockets itself.
//
// A thread that sleeps must be woken, and an idle core takes its time: with
// `busy_poll` a thread asks again and again for so long after an event, before
// it sleeps. Up to `readers` more read sockets while these are busy.
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_SERVER_NET_QUEUE_THREADS_H_
#define QUANTD_SERVER_NET_QUEUE_THREADS_H_

#include <grpcpp/server_builder.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/gate/steady_time.h"
#include "server/net/call_queue.h"
#include "server/net/lone_caller.h"
#include "server/net/socket_readers.h"

namespace quantd {

class QueueThreads {
 public:
  QueueThreads(LoneCaller* lone, int readers,
               std::chrono::microseconds busy_poll);
  ~QueueThreads();

  // Gives a queue a thread, or another one if its own does not come back from
  // what it delivered. With `users`, which must outlive this, it asks the queue
  // only while there are any.
  void Add(grpc::ServerCompletionQueue* queue, QueueUsers* users = nullptr);
  // Must come before the queues are shut down.
  void StopRelief();
  // Waits for all threads, which end with their queues.
  void Join();

 private:
  struct Seat;
  void Run(Seat* seat);
  bool Ask(Seat* seat, void** tag, bool* ok);
  static bool AskForUsers(Seat* seat, void** tag, bool* ok);
  static void Relieve(Seat& seat);
  void RunRelief();
  // Those that are caught.
  std::vector<Seat*> Look(absl::Duration passed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  LoneCaller* const lone_;
  const std::chrono::microseconds busy_poll_;
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<Seat>> seats_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  SteadyCondVar stop_;
  SocketReaders readers_;
  std::thread relief_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_QUEUE_THREADS_H_
