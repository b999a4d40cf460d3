#include "client/quantctl/top/reading.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "client/quantctl/top/samples.h"

namespace quantd::quantctl {
namespace {

constexpr size_t kMostDevices = 64;
constexpr size_t kMostBuckets = 64;

bool IsRefusal(std::string_view code) {
  return code == "RESOURCE_EXHAUSTED" || code == "UNAVAILABLE" ||
         code == "PERMISSION_DENIED";
}

bool IsCallersOwn(std::string_view code) {
  return code == "INVALID_ARGUMENT" || code == "CANCELLED" ||
         code == "UNIMPLEMENTED";
}

// Methods without payloads take no time worth a word.
bool HasPayload(std::string_view method) {
  return method != "GetServerInfo" && method != "DescribeQuantize";
}

void CountDuration(const Sample& sample, Reading* reading) {
  if (!HasPayload(sample["method"])) return;
  const std::string_view le = sample["le"];
  double bound = std::numeric_limits<double>::infinity();
  if (le != "+Inf") {
    const char* const end = le.data() + le.size();
    const auto read = std::from_chars(le.data(), end, bound);
    if (read.ec != std::errc() || read.ptr != end || !(bound >= 0)) return;
  }
  if (reading->durations.size() == kMostBuckets &&
      !reading->durations.contains(bound)) {
    return;
  }
  reading->durations[bound] += sample.value;
}

void Count(const Sample& sample, Reading* reading) {
  const std::string_view name = sample.name;
  const double value = sample.value;
  if (name == "quantd_requests_total") {
    reading->calls += value;
  } else if (name == "quantd_errors_total") {
    const std::string_view code = sample["code"];
    if (IsRefusal(code)) {
      reading->refused += value;
    } else if (!IsCallersOwn(code)) {
      reading->failed += value;
    }
  } else if (name == "quantd_unauthenticated_total") {
    reading->refused += value;
  } else if (name == "quantd_request_bytes_total" ||
             name == "quantd_reply_bytes_total" ||
             name == "quantd_shared_bytes_total") {
    reading->bytes += value;
  } else if (name == "quantd_request_duration_seconds_bucket") {
    CountDuration(sample, reading);
  } else if (name == "quantd_active_calls") {
    reading->in_flight = value;
  } else if (name == "quantd_memory_waiting_calls" ||
             name == "quantd_device_queued_calls") {
    reading->waiting += value;
  } else if (name == "process_resident_memory_bytes") {
    reading->resident_bytes = value;
  } else if (name == "quantd_memory_bound_bytes") {
    reading->bound_bytes = value;
  } else if (name == "process_start_time_seconds") {
    reading->started = value;
  } else if (name == "quantd_serving") {
    reading->serving = value == 1;
  } else if (name == "quantd_build_info") {
    reading->version = sample["version"];
  } else if (name == "quantd_device_state" && value == 1 &&
             reading->devices.size() < kMostDevices) {
    reading->devices[std::string(sample["device"])] = sample["state"];
  }
}

}  // namespace

absl::StatusOr<Reading> ReadPage(std::string_view page) {
  Reading reading;
  reading.at = std::chrono::steady_clock::now();
  ForEachSample(page, [&](const Sample& sample) {
    if (sample.value >= 0) Count(sample, &reading);
  });
  if (reading.version.empty()) {
    return absl::FailedPreconditionError("not a metrics page of quantd");
  }
  return reading;
}

double Activity::Quantile(double q) const {
  double all = 0;
  for (const auto& [bound, count] : durations) all += count;
  if (all <= 0) return -1;
  double below = 0;
  double lower = 0;
  for (const auto& [bound, count] : durations) {
    if (count > 0 && below + count >= q * all) {
      if (bound == std::numeric_limits<double>::infinity()) return -1;
      return lower + (bound - lower) * (q * all - below) / count;
    }
    below += count;
    lower = bound;
  }
  return -1;
}

Activity Between(const Reading& before, const Reading& now) {
  const bool restarted = now.started != before.started;
  const Reading none;
  const Reading& from = restarted ? none : before;
  double seconds = std::chrono::duration<double>(now.at - before.at).count();
  if (restarted) {
    const double age = std::chrono::duration<double>(
                           std::chrono::system_clock::now().time_since_epoch())
                           .count() -
                       now.started;
    // Clocks of two machines differ.
    seconds = std::clamp(age, 0.1, std::max(0.1, seconds));
  }
  const auto rate = [&](double Reading::*counter) {
    return seconds > 0 ? std::max(0.0, now.*counter - from.*counter) / seconds
                       : 0;
  };
  Activity activity;
  activity.calls_per_second = rate(&Reading::calls);
  activity.bytes_per_second = rate(&Reading::bytes);
  activity.refused_per_second = rate(&Reading::refused);
  activity.failed_per_second = rate(&Reading::failed);
  double below = 0;
  for (const auto& [bound, count] : now.durations) {
    const auto then = from.durations.find(bound);
    const double up_to =
        count - (then == from.durations.end() ? 0 : then->second);
    activity.durations[bound] = std::max(0.0, up_to - below);
    below = std::max(below, up_to);
  }
  return activity;
}

}  // namespace quantd::quantctl
