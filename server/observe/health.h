// grpc.health.v1.Health, Check and Watch, for the whole server ("") and for
// "quantd.v1.Quantd".
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_SERVER_OBSERVE_HEALTH_H_
#define QUANTD_SERVER_OBSERVE_HEALTH_H_

#include <atomic>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/calls/small_method.h"
#include "server/net/connection.h"

namespace quantd {

class HealthService {
 public:
  // Health is NOT_SERVING until SetServing(true), and while no device takes
  // work.
  void SetServing(bool serving) { serving_ = serving; }
  void SetDevices(bool any) { has_device_ = any; }
  bool serving() const { return serving_ && has_device_; }

  SmallMethod Check() const;
  SmallMethod Watch(const Connection& connection);

 private:
  // A ServingStatus value.
  char Status() const { return serving() ? 1 : 2; }

  std::atomic<bool> serving_ = false;
  std::atomic<bool> has_device_ = true;
  absl::Mutex mutex_;
  // One entry for each watching call.
  std::multiset<const Connection*> watchers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_HEALTH_H_
