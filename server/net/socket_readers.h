// Threads that read sockets where those of the completion queues are not
// enough.
//
// gRPC reads a socket on whichever thread asks any completion queue, and wakes
// the thread of the queue that what came is for. One thread that reads and
// delivers wakes nobody, which is what a caller who waits wants; of many large
// messages it is not enough. So these ask queues in which nothing ever is, as
// many of them as the others are busy.
//
// Threads: Adjust from one thread at a time.
#ifndef QUANTD_SERVER_NET_SOCKET_READERS_H_
#define QUANTD_SERVER_NET_SOCKET_READERS_H_

#include <grpcpp/completion_queue.h>
#include <time.h>

#include <cstdint>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace quantd {

class SocketReaders {
 public:
  // At most so many, none of which reads at first.
  explicit SocketReaders(int most);
  // Ends them.
  ~SocketReaders();

  // `others`: threads that read and deliver; `used`: the processor time that
  // these have used since the last call; `passed`: the time since then. One
  // more reads if all are busy, one less if they have not been for a while.
  void Adjust(int others, absl::Duration used, absl::Duration passed);
  int active() const;

 private:
  struct Reader {
    std::thread thread;
    clockid_t clock = 0;
    int64_t used = 0;  // ns, as of the last look
  };
  void Run(int index);

  std::vector<Reader> readers_;
  grpc::CompletionQueue nothing_;
  mutable absl::Mutex mutex_;
  int active_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int calm_ = 0;  // looks in a row at which one less would have done
};

// Processor time that a thread has used, in ns; -1: not to be known.
int64_t UsedBy(clockid_t clock);

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_SOCKET_READERS_H_
