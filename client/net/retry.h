// Decides whether and when a failed call is repeated. Uses no clock and no
// network.
//
// Every call is a pure function of its request, which includes the seed of
// stochastic rounding. Repeating a call while a server still works on it costs
// time but does no harm. A retry therefore needs no proof that the server did
// not start.
#ifndef QUANTD_CLIENT_NET_RETRY_H_
#define QUANTD_CLIENT_NET_RETRY_H_

#include <chrono>
#include <mutex>
#include <optional>
#include <random>

#include "absl/status/status.h"
#include "quantd/call_options.h"

namespace quantd::client {

// Stops retries while too many recent calls have failed, to protect a server
// that does not answer. One per client. Thread-safe.
class RetryBudget {
 public:
  // Counts a failed call. Returns whether a retry is allowed.
  bool Spend();
  void Refund();  // counts a call that succeeded

 private:
  static constexpr double kFull = 100;
  static constexpr double kRefund = 1;

  std::mutex mutex_;
  double tokens_ = kFull;
};

// The retries of one call. Not thread-safe.
class Backoff {
 public:
  Backoff(const RetryPolicy& policy, RetryBudget* budget, uint64_t seed);

  // Whether a call that failed at one server may be sent to another at once.
  // Call it only if another one is healthy.
  bool MayMove(const absl::Status& status);

  // The time to wait before the next attempt. nullopt if there must be none.
  std::optional<std::chrono::milliseconds> Next(const absl::Status& status);

 private:
  std::chrono::milliseconds Jittered();
  bool CountUnanswered();

  const RetryPolicy policy_;
  RetryBudget* const budget_;
  std::mt19937_64 random_;
  double base_ms_;
  int unanswered_ = 0;  // UNAVAILABLE errors so far
  int faults_ = 0;      // device faults so far
  int killed_ = 0;      // RESOURCE_EXHAUSTED errors without details so far
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_RETRY_H_
