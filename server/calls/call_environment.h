// What all calls share. Outlives them.
#ifndef QUANTD_SERVER_CALLS_CALL_ENVIRONMENT_H_
#define QUANTD_SERVER_CALLS_CALL_ENVIRONMENT_H_

#include <cstddef>
#include <functional>
#include <string_view>

#include "absl/time/time.h"
#include "proto/wire.h"

namespace grpc {
class AsyncGenericService;
class ServerCompletionQueue;
}  // namespace grpc

namespace quantd {

class Acceptor;
class CallRegistry;
class DeviceMonitor;
class Engine;
class EventWaits;
class Gate;
class HealthService;
class LoneCaller;
class Metrics;
class PlanningThread;
class Quotas;
class Regions;
class RequestIds;
class ServerCredentials;
class ServerInfo;
class TensorService;

struct CallEnvironment {
  // The time that limits are held to.
  std::function<absl::Time()> now;
  TensorService* tensors = nullptr;
  grpc::AsyncGenericService* others = nullptr;
  Acceptor* acceptor = nullptr;
  CallRegistry* registry = nullptr;
  Gate* gate = nullptr;
  LoneCaller* lone = nullptr;
  Engine* engine = nullptr;
  DeviceMonitor* monitor = nullptr;
  // Every device of it works on lent memory where it lies.
  bool works_in_place = false;
  const Regions* regions = nullptr;  // null: no memory is shared
  EventWaits* events = nullptr;
  PlanningThread* planning = nullptr;
  Quotas* quotas = nullptr;
  ServerCredentials* credentials = nullptr;
  HealthService* health = nullptr;
  const ServerInfo* info = nullptr;
  RequestIds* ids = nullptr;
  Metrics* metrics = nullptr;
  // Of tensor methods, by wire::Index.
  size_t request_limit[wire::kTensorMethods.size()] = {};
  wire::RequestDefaults defaults;
  absl::Duration max_job = absl::Seconds(10);
  // Gives a queue whose thread does not come back another one.
  std::function<void(grpc::ServerCompletionQueue* queue)> relieve;
  absl::Duration max_receive = absl::Minutes(1);
  absl::Duration max_send = absl::Minutes(1);
  int max_streams = 256;  // calls at once on one connection
  size_t window = 0;      // see MemoryShares
  // Whether a host is a proxy's, whose calls are not one caller's.
  std::function<bool(std::string_view host)> speaks_for_many;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_CALL_ENVIRONMENT_H_
