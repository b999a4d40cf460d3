// The page that Prometheus reads, in one of two formats: text 0.0.4, which
// every reader knows, or OpenMetrics 1.0, which alone has exemplars.
#ifndef QUANTD_SERVER_OBSERVE_METRICS_PAGE_H_
#define QUANTD_SERVER_OBSERVE_METRICS_PAGE_H_

#include <string>
#include <string_view>

#include "kernels/device/engine.h"
#include "server/calls/call_registry.h"
#include "server/config/sizing.h"
#include "server/gate/gate.h"
#include "server/memory/door.h"
#include "server/net/credentials.h"
#include "server/observe/health.h"
#include "server/observe/metrics.h"

namespace quantd {

// What the page tells about. All of it may be used from any thread.
struct MetricsSources {
  const Metrics* metrics = nullptr;
  const Engine* engine = nullptr;
  const Gate* gate = nullptr;
  const CallRegistry* registry = nullptr;
  const HealthService* health = nullptr;
  MemoryShares shares;
  const ServerCredentials* credentials = nullptr;
  const MemoryDoor* door = nullptr;  // null: no memory is shared
};

enum class PageFormat { kText, kOpenMetrics };

// What the value of a header Accept asks for: OpenMetrics if it is named.
PageFormat ChooseFormat(std::string_view accept);
// For the header Content-Type.
const char* MetricsPageType(PageFormat format);

// Takes short locks of the gate, the registry and each device.
std::string MetricsPage(const MetricsSources& sources, PageFormat format);

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_METRICS_PAGE_H_
