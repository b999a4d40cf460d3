// Makes calls at a given rate and records their results.
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
  double rate = 0;           // calls a second, over all callers; 0: unlimited
  double seconds = 5;        // time in which calls start
  uint64_t calls = 100'000;  // at most
};

struct Outcome {
  // Sorted latencies of good calls and of unsent ones.
  std::vector<uint64_t> nanoseconds;
  uint64_t good = 0;
  uint64_t refused = 0;  // RESOURCE_EXHAUSTED
  uint64_t failed = 0;   // calls that failed
  // Number of failed calls by code.
  std::map<absl::StatusCode, uint64_t> errors;
  uint64_t unsent = 0;  // were due but never made, for lack of a free caller
  double seconds = 0;   // until the last call returned
  absl::Status error;   // the first

  // The smallest latency that at least a part q of all does not exceed; 0 if no
  // call was made.
  uint64_t Quantile(double q) const;
};

// Runs `call` on `callers` threads, each with its number, until time or calls
// are used up or `stop` is not 0. With a rate, call i is due i / rate after the
// start, and its latency counts from then, even if no caller was free. A call
// that is still due after twice the time is not made, and counts with its wait
// so far.
Outcome RunLoad(const Load& load, const std::function<absl::Status(int)>& call,
                const std::atomic<int>& stop);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_BENCH_LOAD_H_
