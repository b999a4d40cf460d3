// grpc.health.v1.Health, Check and Watch, for the whole server ("") and for
// "quantd.v1.Quantd".
//
// gRPC has such a service built in, but as a callback service: its threads
// take turns with ours at the sockets, and each turn is a wake-up more (30 us
// of a small call).
//
// Threads: SetServing and serving may be called from any thread.
#ifndef QUANTD_SERVER_HEALTH_H_
#define QUANTD_SERVER_HEALTH_H_

#include <grpcpp/impl/service_type.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/call_registry.h"

namespace grpc {
class ServerCompletionQueue;
}

namespace quantd {

class HealthService : public grpc::Service {
 public:
  // `registry` counts the watchers, so that a shutdown can wait for them.
  explicit HealthService(CallRegistry* registry);
  ~HealthService();

  // Takes calls of Watch from now on. Check is served by gRPC's own threads.
  void Start(grpc::ServerCompletionQueue* queue);
  // SERVING or NOT_SERVING; not serving from the start.
  void SetServing(bool serving);
  bool serving() const;

 private:
  class Watcher;
  enum Status : char { kServing = 1, kNotServing = 2, kServiceUnknown = 3 };

  Status StatusOf(const std::string& service) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  grpc::Status Check(const grpc::ByteBuffer& request, grpc::ByteBuffer* reply);

  CallRegistry* const registry_;
  mutable absl::Mutex mutex_;
  bool serving_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<Watcher*> watchers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quantd

#endif  // QUANTD_SERVER_HEALTH_H_
