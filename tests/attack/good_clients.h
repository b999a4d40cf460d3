// Typical clients of a service, whose calls are measured. They use the SDK,
// make one call after another, and compare every reply with the first one.
#ifndef QUANTD_TESTS_ATTACK_GOOD_CLIENTS_H_
#define QUANTD_TESTS_ATTACK_GOOD_CLIENTS_H_

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "quantd/client.h"

namespace quantd::attack {

// A number of clients that make calls of one size.
struct Callers {
  int count = 1;
  size_t call_bytes = 0;
  bool streams = false;  // by rpc Stream
};

// Measurements of the callers of one kind.
struct Score {
  size_t call_bytes = 0;
  int served = 0;
  int failed = 0;
  double calls_per_second = 0;  // rate of served calls
  double p50_ms = 0;            // latency of served and failed calls
  double p99_ms = 0;
  std::string error = {};  // one of the errors

  double success() const {
    return served + failed == 0 ? 0 : 1.0 * served / (served + failed);
  }
};

class GoodClients {
 public:
  // Each call has the deadline `deadline`.
  GoodClients(const std::string& address, const Credentials& credentials,
              const std::vector<Callers>& callers,
              std::chrono::milliseconds deadline);
  ~GoodClients();

  // Lets all clients make calls for `time`, and waits for calls in flight.
  // Returns one score for each kind of callers.
  std::vector<Score> Call(std::chrono::milliseconds time);

 private:
  class Caller;
  std::vector<std::vector<std::unique_ptr<Caller>>> kinds_;
  std::vector<size_t> sizes_;  // of the calls of each kind
};

}  // namespace quantd::attack

#endif  // QUANTD_TESTS_ATTACK_GOOD_CLIENTS_H_
