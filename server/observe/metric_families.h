// Every metric that the server exports: its name, type, labels and meaning.
// deploy/METRICS.md is made of this table and a test compares it with what a
// server answers.
#ifndef QUANTD_SERVER_OBSERVE_METRIC_FAMILIES_H_
#define QUANTD_SERVER_OBSERVE_METRIC_FAMILIES_H_

#include <string>
#include <string_view>

namespace quantd {

struct MetricFamily {
  enum Type { kCounter, kGauge, kHistogram };

  std::string_view name;
  Type type;
  std::string_view labels;  // "method, stage"; empty: none
  std::string_view meaning;
};

namespace metric {

inline constexpr MetricFamily kBuildInfo = {
    "quantd_build_info", MetricFamily::kGauge, "version, grpc",
    "1; the server's version and that of gRPC"};
inline constexpr MetricFamily kServing = {
    "quantd_serving", MetricFamily::kGauge, "",
    "1 while the health service says SERVING, 0 from the start of a drain and "
    "while no device takes work"};

inline constexpr MetricFamily kRequests = {
    "quantd_requests_total", MetricFamily::kCounter, "method",
    "Calls that are over, however they ended; one by Stream counts as of its "
    "method, and as Stream if its first message was none"};
inline constexpr MetricFamily kErrors = {
    "quantd_errors_total", MetricFamily::kCounter, "method, code, reason",
    "Calls that did not end with OK: the gRPC code and the reason of "
    "ErrorDetail"};
inline constexpr MetricFamily kRequestBytes = {
    "quantd_request_bytes_total", MetricFamily::kCounter, "method",
    "Bytes of request messages that arrived"};
inline constexpr MetricFamily kReplyBytes = {
    "quantd_reply_bytes_total", MetricFamily::kCounter, "method",
    "Bytes of reply messages of calls that ended with OK"};
inline constexpr MetricFamily kSharedBytes = {
    "quantd_shared_bytes_total", MetricFamily::kCounter, "method, direction",
    "Bytes that calls that ended with OK read (in) and wrote (out) in memory "
    "that clients share; they are in no message"};
inline constexpr MetricFamily kRequestDuration = {
    "quantd_request_duration_seconds", MetricFamily::kHistogram, "method",
    "From the arrival of a call to its end, however it ended"};
inline constexpr MetricFamily kStageDuration = {
    "quantd_stage_duration_seconds", MetricFamily::kHistogram, "method, stage",
    "Time of a stage that a call came to the end of: wait (for memory), "
    "receive, queue (for a slot), gather (into staging), copy_in, kernel and "
    "copy_out (CUDA: between events of the stream; CPU: kernel alone, by the "
    "clock), send"};
inline constexpr MetricFamily kActiveCalls = {
    "quantd_active_calls", MetricFamily::kGauge, "",
    "Tensor calls that were accepted and are not over"};

inline constexpr MetricFamily kMemoryBudget = {
    "quantd_memory_budget_bytes", MetricFamily::kGauge, "",
    "Memory for payloads, in all (--memory-budget)"};
inline constexpr MetricFamily kMemoryBound = {
    "quantd_memory_bound_bytes", MetricFamily::kGauge, "",
    "The most resident memory that the process should ever have"};
inline constexpr MetricFamily kMemoryUsed = {
    "quantd_memory_used_bytes", MetricFamily::kGauge, "account",
    "Memory that calls in flight hold: account receive for messages that "
    "arrive, heads for long lists of groups and amaxes, one account for each "
    "device's staging and output"};
inline constexpr MetricFamily kMemoryLimit = {
    "quantd_memory_limit_bytes", MetricFamily::kGauge, "account",
    "The most that an account may lend; all but heads add up to the budget"};
inline constexpr MetricFamily kMemoryWaiting = {"quantd_memory_waiting_calls",
                                                MetricFamily::kGauge, "",
                                                "Calls that wait for memory"};

inline constexpr MetricFamily kSharedRegions = {
    "quantd_shared_regions", MetricFamily::kGauge, "",
    "Regions of memory that clients share and the server has mapped, and "
    "their events (--memory-socket)"};
inline constexpr MetricFamily kSharedMemory = {
    "quantd_shared_memory_bytes", MetricFamily::kGauge, "",
    "Their bytes; they are in no account of memory"};
inline constexpr MetricFamily kSharedMemoryLimit = {
    "quantd_shared_memory_limit_bytes", MetricFamily::kGauge, "",
    "The most of them (--shared-memory-limit); 0: no memory is shared"};
inline constexpr MetricFamily kSharedRefusals = {
    "quantd_shared_refusals_total", MetricFamily::kCounter, "",
    "Regions and connections that the door for shared memory refused"};

inline constexpr MetricFamily kDeviceInfo = {
    "quantd_device_info", MetricFamily::kGauge, "device, kind, description",
    "1; what a device is"};
inline constexpr MetricFamily kDeviceState = {
    "quantd_device_state", MetricFamily::kGauge, "device, state",
    "1 for the state that the device is in (healthy, suspect, probing or "
    "quarantined), 0 for the others; only one that is healthy takes work"};
inline constexpr MetricFamily kDeviceFaults = {
    "quantd_device_faults_total", MetricFamily::kCounter, "device, fault",
    "Faults of the device: jobs that ended with an error of its own or found "
    "no memory on it (out_of_memory), jobs that did not end in time (hang), "
    "self-tests with a wrong_answer"};
inline constexpr MetricFamily kSelfTests = {
    "quantd_device_self_tests_total", MetricFamily::kCounter, "device, result",
    "Self-tests of the device that are over: passed or failed"};
inline constexpr MetricFamily kDeviceSlots = {"quantd_device_slots",
                                              MetricFamily::kGauge, "device",
                                              "Jobs that may be alive at once"};
inline constexpr MetricFamily kDeviceSlotsBusy = {
    "quantd_device_slots_busy", MetricFamily::kGauge, "device",
    "Jobs that are alive"};
inline constexpr MetricFamily kDeviceQueued = {"quantd_device_queued_calls",
                                               MetricFamily::kGauge, "device",
                                               "Calls that wait for a slot"};
inline constexpr MetricFamily kDeviceJobs = {
    "quantd_device_jobs_total", MetricFamily::kCounter, "device",
    "Jobs that were run, those of self-tests, too"};
inline constexpr MetricFamily kPoolLimit = {
    "quantd_pool_limit_bytes", MetricFamily::kGauge, "device",
    "The most payload memory that the device's pool may hold (pinned, on CUDA "
    "devices)"};
inline constexpr MetricFamily kPoolHighWater = {
    "quantd_pool_high_water_bytes", MetricFamily::kGauge, "device",
    "The most payload memory that the device's pool ever held"};
inline constexpr MetricFamily kRhtHits = {
    "quantd_rht_cache_hits_total", MetricFamily::kCounter, "device",
    "Rotations (sign mask, dimension, dtype) found in the device's cache"};
inline constexpr MetricFamily kRhtMisses = {"quantd_rht_cache_misses_total",
                                            MetricFamily::kCounter, "device",
                                            "Rotations that had to be made"};
inline constexpr MetricFamily kRhtLaunches = {"quantd_rht_launches_total",
                                              MetricFamily::kCounter, "device",
                                              "Kernels that read a rotation"};

inline constexpr MetricFamily kUnauthenticated = {
    "quantd_unauthenticated_total", MetricFamily::kCounter, "reason",
    "Calls that were refused for their token, which was missing, unknown or "
    "not for that method (forbidden); they are in no other metric of calls"};
inline constexpr MetricFamily kLogLinesDropped = {
    "quantd_log_lines_dropped_total", MetricFamily::kCounter, "reason",
    "Log lines that were not written: unread (standard error takes no more), "
    "or repeated (many of a kind, of which only the number is written)"};

inline constexpr MetricFamily kStartTime = {
    "process_start_time_seconds", MetricFamily::kGauge, "",
    "When the process started, in seconds since 1970"};
inline constexpr MetricFamily kCpuSeconds = {
    "process_cpu_seconds_total", MetricFamily::kCounter, "",
    "User and system time of the process"};
inline constexpr MetricFamily kHeapUsed = {
    "quantd_heap_used_bytes", MetricFamily::kGauge, "",
    "Heap that is in use, as the C library tells it; what is free stays "
    "resident"};
inline constexpr MetricFamily kResidentMemory = {
    "process_resident_memory_bytes", MetricFamily::kGauge, "",
    "Resident memory of the process"};
inline constexpr MetricFamily kVirtualMemory = {"process_virtual_memory_bytes",
                                                MetricFamily::kGauge, "",
                                                "Address space of the process"};
inline constexpr MetricFamily kOpenFds = {
    "process_open_fds", MetricFamily::kGauge, "", "Open file descriptors"};
inline constexpr MetricFamily kMaxFds = {
    "process_max_fds", MetricFamily::kGauge, "",
    "The most file descriptors that the process may have open"};

}  // namespace metric

// In the order in which they are exported.
inline constexpr const MetricFamily* kMetricFamilies[] = {
    &metric::kBuildInfo,
    &metric::kServing,
    &metric::kRequests,
    &metric::kErrors,
    &metric::kRequestBytes,
    &metric::kReplyBytes,
    &metric::kSharedBytes,
    &metric::kRequestDuration,
    &metric::kStageDuration,
    &metric::kActiveCalls,
    &metric::kUnauthenticated,
    &metric::kMemoryBudget,
    &metric::kMemoryBound,
    &metric::kMemoryUsed,
    &metric::kMemoryLimit,
    &metric::kMemoryWaiting,
    &metric::kSharedRegions,
    &metric::kSharedMemory,
    &metric::kSharedMemoryLimit,
    &metric::kSharedRefusals,
    &metric::kDeviceInfo,
    &metric::kDeviceState,
    &metric::kDeviceFaults,
    &metric::kSelfTests,
    &metric::kDeviceSlots,
    &metric::kDeviceSlotsBusy,
    &metric::kDeviceQueued,
    &metric::kDeviceJobs,
    &metric::kPoolLimit,
    &metric::kPoolHighWater,
    &metric::kRhtHits,
    &metric::kRhtMisses,
    &metric::kRhtLaunches,
    &metric::kLogLinesDropped,
    &metric::kHeapUsed,
    &metric::kStartTime,
    &metric::kCpuSeconds,
    &metric::kResidentMemory,
    &metric::kVirtualMemory,
    &metric::kOpenFds,
    &metric::kMaxFds};

std::string_view Name(MetricFamily::Type type);  // "counter"
// The table as Markdown.
std::string MetricsTable();

}  // namespace quantd

#endif  // QUANTD_SERVER_OBSERVE_METRIC_FAMILIES_H_
