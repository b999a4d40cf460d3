// Every metric that the server exports: its name, type, labels and help, and
// where its value is read.
#include <grpcpp/grpcpp.h>
#include <sys/resource.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "absl/time/clock.h"
#include "server/observe/log.h"
#include "server/observe/metrics_page.h"

namespace quantd {
namespace {

using From = const CallEnvironment&;
using To = MetricSamples&;

constexpr std::string_view kCounter = "counter";
constexpr std::string_view kGauge = "gauge";
constexpr std::string_view kHistogram = "histogram";

// "BUSY" for REASON_BUSY.
std::string_view ShortName(v1::ErrorDetail::Reason reason) {
  std::string_view name = v1::ErrorDetail::Reason_Name(reason);
  name.remove_prefix(std::string_view("REASON_").size());
  return name;
}

void WriteErrors(From from, To to) {
  for (const wire::MethodSpec& row : wire::kMethods) {
    for (int c = grpc::StatusCode::OK; c <= grpc::StatusCode::UNAUTHENTICATED;
         ++c) {
      const auto code = static_cast<grpc::StatusCode>(c);
      for (int r = 0; r < v1::ErrorDetail::Reason_ARRAYSIZE; ++r) {
        if (!v1::ErrorDetail::Reason_IsValid(r)) continue;
        const auto reason = static_cast<v1::ErrorDetail::Reason>(r);
        const uint64_t n = from.metrics.Errors(row.method, code, reason);
        // Usual errors are exported as 0: Prometheus sees no increase in a
        // series that begins at 1.
        if (n == 0 && !IsUsual(code, reason)) continue;
        to.Add(n, {wire::Name(row.method), Name(code), ShortName(reason)});
      }
    }
  }
}

// Adds a sample of kMember for each method.
template <auto kMember>
void EachMethod(From from, To to) {
  for (const wire::MethodSpec& row : wire::kMethods) {
    to.Add(from.metrics.Read(row.method).*kMember, {wire::Name(row.method)});
  }
}

// Adds a sample for each device: `read` is given the engine and the device's
// index.
template <typename Read>
void EachDevice(From from, To to, Read read) {
  for (size_t i = 0; i < from.engine.size(); ++i) {
    to.Add(read(i), {from.engine.backend(i).info().name});
  }
}

template <auto kMember>
void EachStatistic(From from, To to) {
  EachDevice(from, to,
             [&](size_t i) { return from.engine.backend(i).stats().*kMember; });
}

template <auto kMember>
void EachLoad(From from, To to) {
  EachDevice(from, to, [&](size_t i) { return from.engine.load(i).*kMember; });
}

const absl::Time kStart = absl::Now();

uint64_t HeapUsed() {
#ifdef __GLIBC__
  const struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
#else
  return 0;
#endif
}

absl::Duration CpuTime() {
  rusage times = {};
  getrusage(RUSAGE_SELF, &times);
  return absl::DurationFromTimeval(times.ru_utime) +
         absl::DurationFromTimeval(times.ru_stime);
}

// The number at that place in proc(5)'s /proc/PID/statm, in bytes.
uint64_t MemoryOf(int place) {
  std::ifstream numbers("/proc/self/statm");
  uint64_t pages = 0;
  for (int i = 0; i <= place; ++i) numbers >> pages;
  return pages * static_cast<uint64_t>(getpagesize());
}

// One of those counted is the descriptor that reads the folder.
uint64_t OpenFds() {
  std::error_code error;
  const std::filesystem::directory_iterator fds("/proc/self/fd", error);
  return error ? 0 : std::distance(begin(fds), end(fds)) - 1;
}

uint64_t MaxFds() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

constexpr MetricFamily kFamilies[] = {
    {"quantd_build_info", kGauge, "version, grpc",
     "Always 1; the labels have the version of the server and of gRPC",
     [](From, To to) {
       to.Add(1, {QUANTD_VERSION, grpc::Version()});
     }},
    {"quantd_serving", kGauge, "",
     "1 while the health service reports SERVING; 0 from the start of a "
     "drain and while no device takes work",
     [](From from, To to) { to.Add(from.health.serving()); }},

    {"quantd_requests_total", kCounter, "method",
     "Calls that ended, with OK or with an error. A Stream call counts under "
     "the method that its first message requests, or under Stream if it "
     "ended before that message was parsed",
     [](From from, To to) {
       for (const wire::MethodSpec& row : wire::kMethods) {
         to.Add(from.metrics.Read(row.method).total.count,
                {wire::Name(row.method)});
       }
     }},
    {"quantd_errors_total", kCounter, "method, code, reason",
     "Calls that did not end with OK, by gRPC code and reason (ErrorDetail)",
     WriteErrors},
    {"quantd_request_bytes_total", kCounter, "method",
     "Bytes of request messages that arrived",
     EachMethod<&Metrics::Snapshot::request_bytes>},
    {"quantd_reply_bytes_total", kCounter, "method",
     "Bytes of reply messages in calls that ended with OK",
     EachMethod<&Metrics::Snapshot::reply_bytes>},
    {"quantd_shared_bytes_total", kCounter, "method, direction",
     "Bytes of shared client memory that successful calls read (in) and wrote "
     "(out); they are not part of any message",
     [](From from, To to) {
       for (const wire::MethodSpec& row : wire::kTensorMethods) {
         const Metrics::Snapshot calls = from.metrics.Read(row.method);
         to.Add(calls.shared_input_bytes, {wire::Name(row.method), "in"});
         to.Add(calls.shared_output_bytes, {wire::Name(row.method), "out"});
       }
     }},
    {"quantd_request_duration_seconds", kHistogram, "method",
     "Time from the arrival of a call to its end, with OK or with an error",
     EachMethod<&Metrics::Snapshot::total>},
    {"quantd_stage_duration_seconds", kHistogram, "method, stage",
     "Duration of each stage that a call completed: wait (for memory), "
     "receive, queue (for a slot), gather (into staging), copy_in, kernel and "
     "copy_out (on CUDA between events of the job's stream; the CPU has only "
     "kernel, by the clock), send",
     [](From from, To to) {
       for (const wire::MethodSpec& row : wire::kTensorMethods) {
         for (size_t i = 0; i < std::size(kCallStages); ++i) {
           to.Add(from.metrics.Read(row.method, i),
                  {wire::Name(row.method), kCallStages[i]});
         }
       }
     }},
    {"quantd_active_calls", kGauge, "",
     "Tensor calls that were accepted and have not ended",
     [](From from, To to) { to.Add(from.registry.accepted()); }},
    {"quantd_unauthenticated_total", kCounter, "reason",
     "Calls that were refused because their token was missing, unknown or "
     "not valid for the method (forbidden); no other metric counts these "
     "calls",
     [](From from, To to) {
       to.Add(from.credentials->refused(TokenFault::kMissing), {"missing"});
       to.Add(from.credentials->refused(TokenFault::kUnknown), {"unknown"});
       to.Add(from.credentials->refused(TokenFault::kForbidden), {"forbidden"});
     }},

    {"quantd_memory_budget_bytes", kGauge, "",
     "Total memory for payloads (--memory-budget)",
     [](From from, To to) { to.Add(from.shares.budget); }},
    {"quantd_memory_bound_bytes", kGauge, "",
     "Upper bound of the resident memory of the process",
     [](From from, To to) { to.Add(from.shares.bound); }},
    {"quantd_memory_used_bytes", kGauge, "account",
     "Memory that calls in flight hold, by account: receive (arriving "
     "messages), heads (long lists of groups and amaxes), and one account for "
     "each device (its staging and output)",
     [](From from, To to) {
       to.Add(from.gate->receiving_used(), {"receive"});
       to.Add(from.gate->head_used(), {"heads"});
       EachDevice(from, to,
                  [&](size_t i) { return from.gate->payload_used(i); });
     }},
    {"quantd_memory_limit_bytes", kGauge, "account",
     "Limit of each account in quantd_memory_used_bytes; all limits except "
     "that of heads add up to the budget",
     [](From from, To to) {
       to.Add(from.gate->limits().receiving, {"receive"});
       to.Add(from.gate->limits().heads, {"heads"});
       EachDevice(from, to,
                  [&](size_t i) { return from.gate->limits().devices[i]; });
     }},
    {"quantd_memory_waiting_calls", kGauge, "", "Calls that wait for memory",
     [](From from, To to) { to.Add(from.gate->waiting()); }},

    {"quantd_shared_regions", kGauge, "",
     "Regions of shared client memory that are mapped, plus the clients' GPU "
     "events that are open (--memory-socket)",
     [](From from, To to) {
       to.Add(from.door ? from.door->use().regions + from.door->use().events
                        : 0);
     }},
    {"quantd_shared_memory_bytes", kGauge, "",
     "Bytes of host memory in mapped shared regions; no memory account "
     "includes them",
     [](From from, To to) {
       to.Add(from.door ? from.door->use().bytes.load() : 0);
     }},
    {"quantd_shared_memory_limit_bytes", kGauge, "",
     "Limit of quantd_shared_memory_bytes (--shared-memory-limit); 0: no "
     "memory is shared",
     [](From from, To to) {
       to.Add(from.door ? from.door->limits().bytes : 0);
     }},
    {"quantd_shared_refusals_total", kCounter, "",
     "Connections and offers of regions or events that the socket "
     "--memory-socket refused",
     [](From from, To to) { to.Add(from.door ? from.door->refusals() : 0); }},

    {"quantd_device_info", kGauge, "device, kind, description",
     "Always 1; the labels describe the device",
     [](From from, To to) {
       for (size_t i = 0; i < from.engine.size(); ++i) {
         const BackendInfo& info = from.engine.backend(i).info();
         to.Add(1, {info.name, info.kind, info.description});
       }
     }},
    {"quantd_device_state", kGauge, "device, state",
     "1 for the state that the device is in (healthy, suspect, probing or "
     "quarantined), 0 for the other states; only a healthy device takes work",
     [](From from, To to) {
       for (size_t i = 0; i < from.engine.size(); ++i) {
         for (const DeviceState state : kDeviceStates) {
           to.Add(from.engine.health(i).state() == state,
                  {from.engine.backend(i).info().name, Name(state)});
         }
       }
     }},
    {"quantd_device_faults_total", kCounter, "device, fault",
     "Faults of the device: jobs that failed with an error of the device "
     "(error) or found no free memory on it (out_of_memory), jobs that did "
     "not end in time (hang), self-tests with wrong bytes (wrong_answer)",
     [](From from, To to) {
       for (size_t i = 0; i < from.engine.size(); ++i) {
         for (const DeviceFault fault : kDeviceFaults) {
           to.Add(from.engine.health(i).faults(fault),
                  {from.engine.backend(i).info().name, Name(fault)});
         }
       }
     }},
    {"quantd_device_self_tests_total", kCounter, "device, result",
     "Self-tests of the device that ended: passed or failed",
     [](From from, To to) {
       for (size_t i = 0; i < from.engine.size(); ++i) {
         const std::string& name = from.engine.backend(i).info().name;
         to.Add(from.engine.health(i).tests_passed(), {name, "passed"});
         to.Add(from.engine.health(i).tests_failed(), {name, "failed"});
       }
     }},
    {"quantd_device_slots", kGauge, "device",
     "Jobs that the device may run at once", EachLoad<&Engine::Load::slots>},
    {"quantd_device_slots_busy", kGauge, "device",
     "Jobs that the device runs now", EachLoad<&Engine::Load::busy>},
    {"quantd_device_queued_calls", kGauge, "device",
     "Calls that wait for a slot", EachLoad<&Engine::Load::queued>},
    {"quantd_device_jobs_total", kCounter, "device",
     "Jobs that the device ran, including self-tests",
     EachStatistic<&BackendStats::jobs>},
    {"quantd_pool_limit_bytes", kGauge, "device",
     "Limit of the payload memory in the device's pool (page-locked for CUDA "
     "devices)",
     [](From from, To to) {
       EachDevice(from, to, [&](size_t i) {
         return from.engine.backend(i).info().memory_limit;
       });
     }},
    {"quantd_pool_high_water_bytes", kGauge, "device",
     "Largest amount of payload memory that the device's pool has held",
     EachStatistic<&BackendStats::pool_high_water>},
    {"quantd_rht_cache_hits_total", kCounter, "device",
     "Rotations (sign mask, dimension, dtype) found in the device's cache",
     EachStatistic<&BackendStats::rht_cache_hits>},
    {"quantd_rht_cache_misses_total", kCounter, "device",
     "Rotations that were computed because the device's cache lacked them",
     EachStatistic<&BackendStats::rht_cache_misses>},
    {"quantd_rht_launches_total", kCounter, "device",
     "Launches of kernels that read a rotation",
     EachStatistic<&BackendStats::rht_launches>},

    {"quantd_log_lines_dropped_total", kCounter, "reason",
     "Log lines that were not written, because standard error accepted no "
     "more (unread) or because there were many of a kind (repeated: the log "
     "has only their number)",
     [](From, To to) {
       to.Add(ReadLogLosses().unread, {"unread"});
       to.Add(ReadLogLosses().repeated, {"repeated"});
     }},
    {"quantd_heap_used_bytes", kGauge, "",
     "Heap in use, as the C library reports it; freed heap may stay "
     "resident",
     [](From, To to) { to.Add(HeapUsed()); }},
    {"process_start_time_seconds", kGauge, "",
     "Start time of the process, in seconds since 1970",
     [](From, To to) {
       to.Add(absl::ToDoubleSeconds(kStart - absl::UnixEpoch()));
     }},
    {"process_cpu_seconds_total", kCounter, "",
     "User and system time of the process",
     [](From, To to) { to.Add(absl::ToDoubleSeconds(CpuTime())); }},
    {"process_resident_memory_bytes", kGauge, "",
     "Resident memory of the process",
     [](From, To to) { to.Add(MemoryOf(1)); }},
    {"process_virtual_memory_bytes", kGauge, "", "Address space of the process",
     [](From, To to) { to.Add(MemoryOf(0)); }},
    {"process_open_fds", kGauge, "", "Open file descriptors",
     [](From, To to) { to.Add(OpenFds()); }},
    {"process_max_fds", kGauge, "", "Limit of open file descriptors",
     [](From, To to) { to.Add(MaxFds()); }}};

}  // namespace

absl::Span<const MetricFamily> MetricFamilies() { return kFamilies; }

}  // namespace quantd
