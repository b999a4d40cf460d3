#include "server/observe/metrics_page.h"

#include <grpcpp/grpcpp.h>

#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "server/calls/failure.h"
#include "server/observe/log.h"
#include "server/observe/metric_families.h"
#include "server/observe/process_usage.h"

namespace quantd {
namespace {

// Writes samples under the family that was begun last.
class PageWriter {
 public:
  using Label = std::pair<std::string_view, std::string_view>;
  using Labels = std::initializer_list<Label>;

  explicit PageWriter(PageFormat format) : format_(format) {}

  void Begin(const MetricFamily& family) {
    name_ = family.name;
    std::string_view name = name_;
    // There a counter's samples have this behind the family's name.
    constexpr std::string_view kTotal = "_total";
    if (open() && family.type == MetricFamily::kCounter) {
      name.remove_suffix(kTotal.size());
    }
    Append("# HELP {} {}\n# TYPE {} {}\n", name, family.meaning, name,
           Name(family.type));
  }
  template <typename Number>
  void Sample(Labels labels, Number value) {
    Append("{}", name_);
    WriteLabels(labels, "");
    Append(" {}\n", value);
  }
  // A family of one sample without labels.
  template <typename Number>
  void Only(const MetricFamily& family, Number value) {
    Begin(family);
    Sample({}, value);
  }
  void Buckets(Labels labels, const Histogram::Snapshot& snapshot,
               const Exemplars* exemplars = nullptr) {
    uint64_t below = 0;
    for (size_t i = 0; i < Histogram::kBuckets; ++i) {
      below += snapshot.buckets[i];
      Append("{}_bucket", name_);
      WriteLabels(labels,
                  i + 1 == Histogram::kBuckets
                      ? "+Inf"
                      : fmt::format("{}", Seconds(Histogram::kBounds[i])));
      Append(" {}", below);
      if (const auto exemplar = open() && exemplars != nullptr
                                    ? exemplars->Read(i)
                                    : std::nullopt) {
        Append(" # {{trace_id=\"{}\",span_id=\"{}\"}} {} {:.3f}",
               exemplar->trace.trace(), exemplar->trace.span(),
               Seconds(exemplar->nanoseconds),
               static_cast<double>(exemplar->unix_ms) / 1e3);
      }
      page_ += '\n';
    }
    Append("{}_sum", name_);
    WriteLabels(labels, "");
    Append(" {}\n{}_count", Seconds(snapshot.sum_ns), name_);
    WriteLabels(labels, "");
    Append(" {}\n", snapshot.count);
  }
  std::string Finish() {
    if (open()) page_ += "# EOF\n";
    return std::move(page_);
  }

 private:
  bool open() const { return format_ == PageFormat::kOpenMetrics; }
  static double Seconds(uint64_t nanoseconds) {
    return static_cast<double>(nanoseconds) / 1e9;
  }
  template <typename... Parts>
  void Append(fmt::format_string<Parts...> format, Parts&&... parts) {
    fmt::format_to(std::back_inserter(page_), format,
                   std::forward<Parts>(parts)...);
  }
  void WriteLabels(Labels labels, std::string_view le) {
    char before = '{';
    const auto write = [&](std::string_view key, std::string_view value) {
      Append("{}{}=\"", before, key);
      for (const char c : value) {
        if (c == '\\' || c == '"') page_ += '\\';
        page_ += c == '\n' ? ' ' : c;
      }
      page_ += '"';
      before = ',';
    };
    for (const auto& [key, value] : labels) write(key, value);
    if (!le.empty()) write("le", le);
    if (before == ',') page_ += '}';
  }

  const PageFormat format_;
  std::string page_;
  std::string_view name_;
};

// "BUSY" of REASON_BUSY.
std::string_view ShortName(v1::ErrorDetail::Reason reason) {
  std::string_view name = v1::ErrorDetail::Reason_Name(reason);
  name.remove_prefix(std::string_view("REASON_").size());
  return name;
}

void WriteErrors(const Metrics& metrics, PageWriter* page) {
  page->Begin(metric::kErrors);
  for (const wire::MethodSpec& row : wire::kMethods) {
    for (int c = grpc::StatusCode::OK; c <= grpc::StatusCode::UNAUTHENTICATED;
         ++c) {
      const auto code = static_cast<grpc::StatusCode>(c);
      for (int r = 0; r < v1::ErrorDetail::Reason_ARRAYSIZE; ++r) {
        if (!v1::ErrorDetail::Reason_IsValid(r)) continue;
        const auto reason = static_cast<v1::ErrorDetail::Reason>(r);
        const uint64_t n = metrics.Errors(row.method, code, reason);
        // An error that is not there as a 0 before it first happens would be
        // no increase to Prometheus.
        if (n == 0 && !IsUsual(code, reason)) continue;
        page->Sample({{"method", wire::Name(row.method)},
                      {"code", Name(code)},
                      {"reason", ShortName(reason)}},
                     n);
      }
    }
  }
}

void WriteCalls(const MetricsSources& from, PageWriter* page) {
  const Metrics& metrics = *from.metrics;
  page->Begin(metric::kRequests);
  for (const wire::MethodSpec& row : wire::kMethods) {
    page->Sample({{"method", wire::Name(row.method)}},
                 metrics.Read(row.method).total.count);
  }
  WriteErrors(metrics, page);
  page->Begin(metric::kRequestBytes);
  for (const wire::MethodSpec& row : wire::kMethods) {
    page->Sample({{"method", wire::Name(row.method)}},
                 metrics.Read(row.method).request_bytes);
  }
  page->Begin(metric::kReplyBytes);
  for (const wire::MethodSpec& row : wire::kMethods) {
    page->Sample({{"method", wire::Name(row.method)}},
                 metrics.Read(row.method).reply_bytes);
  }
  page->Begin(metric::kSharedBytes);
  for (const wire::MethodSpec& row : wire::kTensorMethods) {
    const Metrics::Snapshot calls = metrics.Read(row.method);
    page->Sample({{"method", wire::Name(row.method)}, {"direction", "in"}},
                 calls.shared_input_bytes);
    page->Sample({{"method", wire::Name(row.method)}, {"direction", "out"}},
                 calls.shared_output_bytes);
  }
  page->Begin(metric::kRequestDuration);
  for (const wire::MethodSpec& row : wire::kMethods) {
    page->Buckets({{"method", wire::Name(row.method)}},
                  metrics.Read(row.method).total,
                  &metrics.exemplars(row.method));
  }
  page->Begin(metric::kStageDuration);
  for (const wire::MethodSpec& row : wire::kTensorMethods) {
    for (const CallStage stage : kCallStages) {
      page->Buckets(
          {{"method", wire::Name(row.method)}, {"stage", Name(stage)}},
          metrics.Read(row.method, stage));
    }
  }
  page->Only(metric::kActiveCalls, from.registry->accepted());
  page->Begin(metric::kUnauthenticated);
  page->Sample({{"reason", "missing"}},
               from.credentials->refused(TokenFault::kMissing));
  page->Sample({{"reason", "unknown"}},
               from.credentials->refused(TokenFault::kUnknown));
  page->Sample({{"reason", "forbidden"}},
               from.credentials->refused(TokenFault::kForbidden));
}

void WriteMemory(const MetricsSources& from, PageWriter* page) {
  const Gate& gate = *from.gate;
  constexpr std::string_view kReceive = "receive";
  constexpr std::string_view kHeads = "heads";
  page->Only(metric::kMemoryBudget, from.shares.budget);
  page->Only(metric::kMemoryBound, from.shares.bound);
  page->Begin(metric::kMemoryUsed);
  page->Sample({{"account", kReceive}}, gate.receiving_used());
  page->Sample({{"account", kHeads}}, gate.head_used());
  for (size_t i = 0; i < from.engine->size(); ++i) {
    page->Sample({{"account", from.engine->backend(i).info().name}},
                 gate.payload_used(i));
  }
  page->Begin(metric::kMemoryLimit);
  page->Sample({{"account", kReceive}}, gate.limits().receiving);
  page->Sample({{"account", kHeads}}, gate.limits().heads);
  for (size_t i = 0; i < from.engine->size(); ++i) {
    page->Sample({{"account", from.engine->backend(i).info().name}},
                 gate.limits().devices[i]);
  }
  page->Only(metric::kMemoryWaiting, gate.waiting());
}

void WriteSharedMemory(const MemoryDoor* door, PageWriter* page) {
  const bool shut = door == nullptr;
  page->Only(metric::kSharedRegions,
             shut ? 0 : door->use().regions + door->use().events);
  page->Only(metric::kSharedMemory, shut ? 0 : door->use().bytes.load());
  page->Only(metric::kSharedMemoryLimit, shut ? 0 : door->limits().bytes);
  page->Only(metric::kSharedRefusals, shut ? 0 : door->refusals());
}

void WriteDevices(const Engine& engine, PageWriter* page) {
  struct Device {
    const BackendInfo* info;
    BackendStats stats;
    Engine::Load load;
    const DeviceHealth* health;
  };
  std::vector<Device> devices;
  for (size_t i = 0; i < engine.size(); ++i) {
    const Backend& backend = engine.backend(i);
    devices.push_back(
        {&backend.info(), backend.stats(), engine.load(i), &engine.health(i)});
  }
  page->Begin(metric::kDeviceInfo);
  for (const Device& d : devices) {
    page->Sample({{"device", d.info->name},
                  {"kind", d.info->kind},
                  {"description", d.info->description}},
                 1);
  }
  page->Begin(metric::kDeviceState);
  for (const Device& d : devices) {
    for (const DeviceState state : kDeviceStates) {
      page->Sample({{"device", d.info->name}, {"state", Name(state)}},
                   d.health->state() == state ? 1 : 0);
    }
  }
  page->Begin(metric::kDeviceFaults);
  for (const Device& d : devices) {
    for (const DeviceFault fault : kDeviceFaults) {
      page->Sample({{"device", d.info->name}, {"fault", Name(fault)}},
                   d.health->faults(fault));
    }
  }
  page->Begin(metric::kSelfTests);
  for (const Device& d : devices) {
    page->Sample({{"device", d.info->name}, {"result", "passed"}},
                 d.health->tests_passed());
    page->Sample({{"device", d.info->name}, {"result", "failed"}},
                 d.health->tests_failed());
  }
  const auto each = [&](const MetricFamily& family, auto value) {
    page->Begin(family);
    for (const Device& d : devices) {
      page->Sample({{"device", d.info->name}}, value(d));
    }
  };
  each(metric::kDeviceSlots, [](const Device& d) { return d.load.slots; });
  each(metric::kDeviceSlotsBusy, [](const Device& d) { return d.load.busy; });
  each(metric::kDeviceQueued, [](const Device& d) { return d.load.queued; });
  each(metric::kDeviceJobs, [](const Device& d) { return d.stats.jobs; });
  each(metric::kPoolLimit,
       [](const Device& d) { return d.info->memory_limit; });
  each(metric::kPoolHighWater,
       [](const Device& d) { return d.stats.pool_high_water; });
  each(metric::kRhtHits,
       [](const Device& d) { return d.stats.rht_cache_hits; });
  each(metric::kRhtMisses,
       [](const Device& d) { return d.stats.rht_cache_misses; });
  each(metric::kRhtLaunches,
       [](const Device& d) { return d.stats.rht_launches; });
}

void WriteProcess(PageWriter* page) {
  const LogLosses losses = ReadLogLosses();
  page->Begin(metric::kLogLinesDropped);
  page->Sample({{"reason", "unread"}}, losses.unread);
  page->Sample({{"reason", "repeated"}}, losses.repeated);
  const ProcessUsage usage = ReadProcessUsage();
  page->Only(metric::kHeapUsed, usage.heap_used_bytes);
  page->Only(metric::kStartTime, usage.start_time);
  page->Only(metric::kCpuSeconds, usage.cpu_seconds);
  page->Only(metric::kResidentMemory, usage.resident_bytes);
  page->Only(metric::kVirtualMemory, usage.virtual_bytes);
  page->Only(metric::kOpenFds, usage.open_fds);
  page->Only(metric::kMaxFds, usage.max_fds);
}

}  // namespace

PageFormat ChooseFormat(std::string_view accept) {
  return accept.find("application/openmetrics-text") != std::string_view::npos
             ? PageFormat::kOpenMetrics
             : PageFormat::kText;
}

const char* MetricsPageType(PageFormat format) {
  return format == PageFormat::kOpenMetrics
             ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
             : "text/plain; version=0.0.4; charset=utf-8";
}

std::string MetricsPage(const MetricsSources& sources, PageFormat format) {
  PageWriter page(format);
  page.Begin(metric::kBuildInfo);
  page.Sample({{"version", QUANTD_VERSION}, {"grpc", grpc::Version()}}, 1);
  page.Only(metric::kServing, sources.health->serving() ? 1 : 0);
  WriteCalls(sources, &page);
  WriteMemory(sources, &page);
  WriteSharedMemory(sources.door, &page);
  WriteDevices(*sources.engine, &page);
  WriteProcess(&page);
  return page.Finish();
}

}  // namespace quantd
