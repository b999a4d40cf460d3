// Decides whether and when a failed call is repeated. Has no clock and no
// network.
//
// Every call of the service is a pure function of its request, including the
// seed of stochastic rounding. Repeating it, here or elsewhere, while the first
// server still works on it costs time but does no harm. So a retry needs no
// confirmation that the server did not begin.
#ifndef QUANTD_CLIENT_NET_RETRY_H_
#define QUANTD_CLIENT_NET_RETRY_H_

#include <chrono>
#include <mutex>
#include <optional>
#include <random>

#include "absl/status/status.h"
#include "quantd/call_options.h"

namespace quantd::client {

// Protects a server that does not answer: retries stop while too many recent
// calls have failed. Thread-safe, one per client.
class RetryBudget {
 public:
  // Counts a failure. Returns whether a retry is affordable.
  bool Spend();
  void Refund();  // a call succeeded

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

  // Whether a call that failed at one server may at once be sent to another
  // one. Must be called only if there is a healthy one.
  bool MayMove(const absl::Status& status);

  // How long to wait before the next attempt; nullopt: do not retry.
  std::optional<std::chrono::milliseconds> Next(const absl::Status& status);

 private:
  std::chrono::milliseconds Jittered();
  bool CountUnanswered();

  const RetryPolicy policy_;
  RetryBudget* const budget_;
  std::mt19937_64 random_;
  double base_ms_;
  int unanswered_ = 0;  // number of UNAVAILABLE so far
  int faults_ = 0;      // number of device faults so far
  int killed_ = 0;      // RESOURCE_EXHAUSTED without details so far
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_NET_RETRY_H_
