// When a failed call is made again. No clock and no network in here.
#ifndef QUANTD_CLIENT_RETRY_H_
#define QUANTD_CLIENT_RETRY_H_

#include <chrono>
#include <mutex>
#include <optional>
#include <random>

#include "absl/status/status.h"
#include "client/client.h"

namespace quantd::client {

// Keeps a client from hammering a server that does not answer: retries stop
// while too many of the recent calls failed. Thread-safe, one per client.
class RetryBudget {
 public:
  // Counts a failure; true when a retry is affordable.
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

  // How long to wait before the call is sent again; nullopt: it is not.
  std::optional<std::chrono::milliseconds> Next(const absl::Status& status);

 private:
  std::chrono::milliseconds Jittered();

  const RetryPolicy policy_;
  RetryBudget* const budget_;
  std::mt19937_64 random_;
  double base_ms_;
  int unanswered_ = 0;  // UNAVAILABLE so far
  int killed_ = 0;      // RESOURCE_EXHAUSTED without a word so far
};

}  // namespace quantd::client

#endif  // QUANTD_CLIENT_RETRY_H_
