// Calls made at a pace, and what became of them.
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
  double rate = 0;     // calls a second of all callers; 0: as fast as they can
  double seconds = 5;  // in which calls start
  uint64_t calls = 100'000;  // at most
};

struct Outcome {
  // Sorted: of calls that came back well, and of unsent ones.
  std::vector<uint64_t> nanoseconds;
  uint64_t good = 0;
  uint64_t refused = 0;                         // RESOURCE_EXHAUSTED
  uint64_t failed = 0;                          // otherwise
  std::map<absl::StatusCode, uint64_t> errors;  // calls that ended with them
  uint64_t unsent = 0;  // were due, and no caller got round to them
  double seconds = 0;   // until the last call was back
  absl::Status error;   // the first

  // The least latency that a part q of all does not exceed; 0: there are none.
  uint64_t Quantile(double q) const;
};

// Has `callers` threads call, each with its number, until the time or the calls
// are used up or `stop` is not 0. With a rate call i is due i / rate after the
// start, its latency counts from then on, whenever a caller was free for it,
// and what is still due after twice the time is not made: it counts with how
// long it has waited.
Outcome RunLoad(const Load& load, const std::function<absl::Status(int)>& call,
                const std::atomic<int>& stop);

}  // namespace quantd::quantctl

#endif  // QUANTD_CLIENT_QUANTCTL_BENCH_LOAD_H_
