#include "server/memory/closing.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <deque>
#include <system_error>
#include <thread>

#include "absl/synchronization/mutex.h"

namespace quantd {
namespace {

constexpr size_t kMostThreads = 16;
constexpr size_t kMostWaiting = 256;

struct Closing {
  absl::Mutex mutex;
  std::deque<int> waiting ABSL_GUARDED_BY(mutex);
  size_t threads ABSL_GUARDED_BY(mutex) = 0;
};

// Never destroyed: its threads may outlive everything else.
Closing& TheClosing() {
  static Closing* const closing = new Closing;
  return *closing;
}

void Run() {
  Closing& closing = TheClosing();
  while (true) {
    int fd = -1;
    {
      absl::MutexLock lock(&closing.mutex);
      if (closing.waiting.empty()) {
        --closing.threads;
        return;
      }
      fd = closing.waiting.front();
      closing.waiting.pop_front();
    }
    // Most of what blocks does so no more, and keeps no thread.
    const linger none = {};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
    close(fd);
  }
}

}  // namespace

void CloseApart(int fd) {
  Closing& closing = TheClosing();
  absl::MutexLock lock(&closing.mutex);
  closing.waiting.push_back(fd);
  if (closing.threads == kMostThreads) return;
  try {
    std::thread(Run).detach();
    ++closing.threads;
  } catch (const std::system_error&) {
    // The next one that begins takes it along.
  }
}

bool ClosingIsBehind() {
  Closing& closing = TheClosing();
  absl::MutexLock lock(&closing.mutex);
  return closing.waiting.size() >= kMostWaiting;
}

}  // namespace quantd
