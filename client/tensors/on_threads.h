// Runs one function on several threads.
#ifndef QUANTD_CLIENT_TENSORS_ON_THREADS_H_
#define QUANTD_CLIENT_TENSORS_ON_THREADS_H_

#include <functional>
#include <system_error>
#include <thread>
#include <vector>

namespace quantd::client {

// Runs `loop` on this thread and on `threads` - 1 others, or on fewer if the
// machine has no more, and waits for all of them. Every run must take what work
// is left.
inline void OnThreads(int threads, const std::function<void()>& loop) {
  std::vector<std::thread> others;
  try {
    for (int i = 1; i < threads; ++i) others.emplace_back(loop);
  } catch (const std::system_error&) {
    // Those that have started do the work.
  }
  loop();
  for (std::thread& other : others) other.join();
}

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_TENSORS_ON_THREADS_H_
