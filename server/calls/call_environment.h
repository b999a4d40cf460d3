// State that all calls of a server share. It outlives them.
#ifndef QUANTD_SERVER_CALLS_CALL_ENVIRONMENT_H_
#define QUANTD_SERVER_CALLS_CALL_ENVIRONMENT_H_

#include <grpcpp/generic/async_generic_service.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/device/engine.h"
#include "proto/answers.h"
#include "server/calls/call_record.h"
#include "server/calls/call_registry.h"
#include "server/calls/tensor_service.h"
#include "server/calls/worker_thread.h"
#include "server/config/options.h"
#include "server/config/sizing.h"
#include "server/device/device_monitor.h"
#include "server/gate/gate.h"
#include "server/memory/door.h"
#include "server/memory/regions.h"
#include "server/net/acceptor.h"
#include "server/net/call_queue.h"
#include "server/net/credentials.h"
#include "server/net/queue_threads.h"
#include "server/observe/health.h"
#include "server/observe/metrics.h"
#include "server/observe/server_info.h"

namespace quantd {

struct CallEnvironment {
  // `readers` is the most threads that read sockets in addition to the queues'
  // own.
  CallEnvironment(const ServerOptions& with, const MemoryShares& memory,
                  Gate::Limits limits, int readers,
                  std::vector<std::unique_ptr<Backend>>&& backends,
                  std::unique_ptr<ServerCredentials> port)
      : options(with),
        shares(memory),
        credentials(std::move(port)),
        gate(Gate::Create(std::move(limits))),
        engine(std::move(backends), absl::ToChronoMicroseconds(with.busy_poll)),
        queue_threads(&lone, readers,
                      absl::ToChronoMicroseconds(with.busy_poll)),
        registry(with.now) {}

  const ServerOptions options;
  const MemoryShares shares;
  // The largest request in one message, by wire::Index of the tensor method.
  size_t request_limit[wire::kTensorMethods.size()] = {};
  wire::Facts facts;
  // Whether a host is a proxy, whose calls come from many callers.
  std::function<bool(std::string_view host)> speaks_for_many;
  // Whether every device works on lent memory in place.
  bool works_in_place = true;

  const std::unique_ptr<ServerCredentials> credentials;
  const std::shared_ptr<Gate> gate;
  Engine engine;
  WorkerThread planning{WorkerThread::kNice};
  WorkerThread events;
  RequestIds ids;
  Metrics metrics;
  HealthService health;
  LoneCaller lone;
  std::unique_ptr<DeviceMonitor> monitor;
  QueueThreads queue_threads;
  // Its thread also drives the monitor and the queue threads.
  CallRegistry registry;
  Regions regions;
  std::unique_ptr<MemoryDoor> door;  // null: no memory is shared
  std::unique_ptr<Acceptor> acceptor;
  TensorService tensors;
  grpc::AsyncGenericService others;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_CALLS_CALL_ENVIRONMENT_H_
