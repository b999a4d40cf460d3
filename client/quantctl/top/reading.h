// What a server's metrics page says of it, and what two readings say of the
// time between them.
#ifndef QUANTD_CLIENT_QUANTCTL_TOP_READING_H_
#define QUANTD_CLIENT_QUANTCTL_TOP_READING_H_

#include <chrono>
#include <map>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace quantd::quantctl {

struct Reading {
  std::chrono::steady_clock::time_point at;
  std::string version;
  bool serving = false;
  double started = 0;  // of the process, in Unix seconds
  // Counters of calls that are over.
  double calls = 0;
  double refused = 0;  // busy, draining, without a device, without a token
  double failed = 0;   // by the server's doing: INTERNAL, DEADLINE_EXCEEDED...
  double bytes = 0;    // in and out, by messages and in shared memory
  // Durations of calls with payloads: how many took so many seconds at most.
  std::map<double, double> durations;
  // Now.
  double in_flight = 0;
  double waiting = 0;  // for memory, or a slot
  double resident_bytes = 0;
  double bound_bytes = 0;
  std::map<std::string, std::string> devices;  // their states
};

// FAILED_PRECONDITION for a page that is not quantd's.
absl::StatusOr<Reading> ReadPage(std::string_view page);

// Between two readings of one server, or since its start.
struct Activity {
  double calls_per_second = 0;
  double bytes_per_second = 0;
  double refused_per_second = 0;
  double failed_per_second = 0;
  // Durations by number: of calls between the two.
  std::map<double, double> durations;

  // Linear within its bucket. Negative: no call was over, or (of a bucket
  // without an upper end) nobody knows.
  double Quantile(double q) const;
};

// `before` may be of another process of that name; then what `now` counts is
// of the time since its start.
Activity Between(const Reading& before, const Reading& now);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_TOP_READING_H_
