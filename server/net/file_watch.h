// Calls back when files change. Polls: what mounts secrets into containers
// swaps links and directories, which is easy to miss by notification.
//
// Threads: one of its own, on which it calls back, from construction to the
// end of destruction.
#ifndef QUANTD_SERVER_NET_FILE_WATCH_H_
#define QUANTD_SERVER_NET_FILE_WATCH_H_

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/gate/steady_time.h"

namespace quantd {

// Files that mean something only together.
struct WatchedFiles {
  std::vector<std::string> paths;
  std::function<void()> changed;
};

class FileWatch {
 public:
  // Looks every `interval`. `changed` is called once soon after construction
  // and then after a change, when two looks have found the same: a key and its
  // certificate that are written one after the other count as one change.
  FileWatch(std::vector<WatchedFiles> groups, absl::Duration interval);
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;

  // Calls back for all of them soon, whether they changed or not: somebody
  // says that they are as they should be.
  void CallNow();

 private:
  void Run(absl::Duration interval);

  const std::vector<WatchedFiles> groups_;
  absl::Mutex mutex_;
  SteadyCondVar wanted_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool call_now_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_NET_FILE_WATCH_H_
