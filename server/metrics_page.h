// The page that Prometheus reads: text format 0.0.4.
#ifndef QUANTD_SERVER_METRICS_PAGE_H_
#define QUANTD_SERVER_METRICS_PAGE_H_

#include <string>

#include "kernels/device/engine.h"
#include "server/call_registry.h"
#include "server/credentials.h"
#include "server/health.h"
#include "server/ledger.h"
#include "server/memory/door.h"
#include "server/metrics.h"
#include "server/sizing.h"

namespace quantd {

// What the page tells about. All of it may be used from any thread.
struct MetricsSources {
  const Metrics* metrics = nullptr;
  const Engine* engine = nullptr;
  const MemoryLedger* ledger = nullptr;
  const CallRegistry* registry = nullptr;
  const HealthService* health = nullptr;
  MemoryShares shares;
  const ServerCredentials* credentials = nullptr;
  const MemoryDoor* door = nullptr;  // null: no memory is shared
};

inline constexpr char kMetricsPageType[] =
    "text/plain; version=0.0.4; charset=utf-8";

// Takes short locks of the ledger, the registry and each device.
std::string MetricsPage(const MetricsSources& sources);

}  // namespace quantd

#endif  // QUANTD_SERVER_METRICS_PAGE_H_
