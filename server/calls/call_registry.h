// Knows every call: counts them, so that a shutdown can wait for them, and
// looks at each every so often, for what takes too long.
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_SERVER_CALLS_CALL_REGISTRY_H_
#define QUANTD_SERVER_CALLS_CALL_REGISTRY_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/gate/steady_time.h"

namespace quantd {

// A call as the registry sees it.
class WatchedCall {
 public:
  // Takes a reference, unless the last one is gone.
  virtual bool TryRef() = 0;
  virtual void Unref() = 0;
  // Looks for what takes too long. Comes every so often, on the registry's
  // thread.
  virtual void Watch(absl::Time now) = 0;

 protected:
  ~WatchedCall() = default;
};

class CallRegistry {
 public:
  // By whose time calls are watched.
  explicit CallRegistry(std::function<absl::Time()> now = SteadyNow);
  ~CallRegistry();

  // Of every call object, armed ones included.
  void Created();
  void Destroyed();
  // Calls that every so often, too, from now on.
  void OnWatch(std::function<void(absl::Time now)> look);
  // Looks at the call every so often until it leaves.
  void Watch(WatchedCall* call);
  void Leave(WatchedCall* call);

  // Of calls that a shutdown waits for. False: the server drains, and takes no
  // more calls.
  bool Accept();
  void Release();
  // The same for a call that holds nothing and is over at once: true while the
  // server drains, and the caller turns it away.
  bool Refuses();

  // No call is accepted from now on.
  void StartDraining();
  bool draining() const;

  // Calls that have come are open; of those that may come some always exist.
  enum class Kind { kAccepted, kOpen, kExisting };
  // Whether their number came down to zero in time.
  bool WaitUntilNone(Kind kind, absl::Time deadline);
  // Whether no call was refused for `quiet`.
  bool WaitUntilQuiet(absl::Duration quiet, absl::Time deadline);
  size_t accepted() const;

 private:
  void RunWatch();

  const std::function<absl::Time()> now_;
  mutable absl::Mutex mutex_;
  SteadyCondVar fewer_;  // calls of a kind
  SteadyCondVar stopped_;
  std::function<void(absl::Time now)> look_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<WatchedCall*> calls_ ABSL_GUARDED_BY(mutex_);
  size_t accepted_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t existing_ ABSL_GUARDED_BY(mutex_) = 0;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time last_refused_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread watcher_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_CALL_REGISTRY_H_
