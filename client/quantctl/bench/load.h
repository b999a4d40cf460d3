// Makes calls from several threads, at a given rate or as fast as possible, and
// records their latencies and errors.
#ifndef QUANTD_CLIENT_QUANTCTL_BENCH_LOAD_H_
#define QUANTD_CLIENT_QUANTCTL_BENCH_LOAD_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "absl/status/status.h"

namespace quantd::quantctl {

struct Load {
  int callers = 1;
  double rate = 0;     // calls per second of all callers together; 0: unlimited
  double seconds = 5;  // time during which calls start
  uint64_t calls = 100'000;  // maximum number of calls
};

struct Outcome {
  // Sorted latencies of successful calls, and of unsent ones.
  std::vector<uint64_t> nanoseconds;
  uint64_t good = 0;
  uint64_t refused = 0;  // RESOURCE_EXHAUSTED
  uint64_t failed = 0;   // calls with another error
  // Number of failed calls by code.
  std::map<absl::StatusCode, uint64_t> errors;
  uint64_t unsent = 0;  // calls that were due, but had no free caller
  double seconds = 0;   // time until the last call returned
  absl::Status error;   // the first error

  // The latency of quantile q: 0.99 gives the 99th percentile, in nanoseconds.
  // 0 if no call was made.
  uint64_t Quantile(double q) const;
};

// Runs `call` on `callers` threads, with the thread's number, until the time or
// the number of calls is used up or `stop` is not 0. With a rate, call i is due
// i / rate seconds after the start, and its latency is measured from then, even
// if no caller was free. Calls that are still waiting after twice the time are
// not made; they count as unsent with their waiting time as latency.
Outcome RunLoad(const Load& load, const std::function<absl::Status(int)>& call,
                const std::atomic<int>& stop);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_BENCH_LOAD_H_
