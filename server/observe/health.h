// grpc.health.v1.Health, Check and Watch, for the whole server ("") and for
// "quantd.v1.Quantd".
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_SERVER_OBSERVE_HEALTH_H_
#define QUANTD_SERVER_OBSERVE_HEALTH_H_

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "server/calls/call_environment.h"
#include "server/calls/incoming_call.h"
#include "server/calls/small_call.h"

namespace quantd {

class HealthService {
 public:
  // SERVING or NOT_SERVING; not serving from the start, nor while no device
  // takes work.
  void SetServing(bool serving);
  void SetDevices(bool any);
  bool serving() const;

  SmallMethod Check();
  std::unique_ptr<CallHandler> Watch(CallEnvironment* env, IncomingCall* call);

 private:
  class Watcher;
  enum Status : char { kServing = 1, kNotServing = 2, kServiceUnknown = 3 };

  Status StatusOf(const std::string& service) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_device_ ABSL_GUARDED_BY(mutex_) = true;
  std::set<Watcher*> watchers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_HEALTH_H_
