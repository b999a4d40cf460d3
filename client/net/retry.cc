#include "client/net/retry.h"

#include <algorithm>

#include "quantd/error.h"

namespace quantd::client {

bool RetryBudget::Spend() {
  std::lock_guard lock(mutex_);
  tokens_ = std::max(0.0, tokens_ - 1);
  return tokens_ > kFull / 2;
}

void RetryBudget::Refund() {
  std::lock_guard lock(mutex_);
  tokens_ = std::min(kFull, tokens_ + kRefund);
}

Backoff::Backoff(const RetryPolicy& policy, RetryBudget* budget, uint64_t seed)
    : policy_(policy),
      budget_(budget),
      random_(seed),
      base_ms_(static_cast<double>(policy.initial_backoff.count())) {}

std::chrono::milliseconds Backoff::Jittered() {
  std::uniform_real_distribution<double> part(0.5, 1.0);
  const double ms = base_ms_ * part(random_);
  base_ms_ = std::min(base_ms_ * policy_.multiplier,
                      static_cast<double>(policy_.max_backoff.count()));
  return std::chrono::milliseconds(static_cast<int64_t>(ms + 0.5));
}

bool Backoff::CountUnanswered() {
  const bool affordable = budget_->Spend();
  return ++unanswered_ < policy_.max_attempts && affordable;
}

bool Backoff::MayMove(const absl::Status& status) {
  if (policy_.max_attempts <= 1) return false;
  const auto error = GetServerError(status);
  if (error && error->reason == ErrorReason::kDeviceFault) {
    // One retry only: a second fault is probably caused by the request.
    return ++faults_ == 1;
  }
  if (!GetRetryHint(status)) return false;
  if (status.code() == absl::StatusCode::kUnavailable) return CountUnanswered();
  // Another server may have memory. An error without details is different:
  // gRPC's memory quota ended the stream, perhaps because of the message's
  // size.
  return error.has_value();
}

std::optional<std::chrono::milliseconds> Backoff::Next(
    const absl::Status& status) {
  const auto hint = GetRetryHint(status);
  if (!hint || policy_.max_attempts <= 1) return std::nullopt;
  if (status.code() == absl::StatusCode::kUnavailable) {
    if (!CountUnanswered()) return std::nullopt;
    return std::max(hint->delay, Jittered());
  }
  if (!GetServerError(status) && hint->delay.count() == 0) {
    // gRPC's memory quota ended the stream; the server's admission adds
    // details. Retry once and late, because the quota may end the same message
    // again.
    if (++killed_ > 1) return std::nullopt;
    return policy_.max_backoff / 2 + Jittered();
  }
  // The server works and says when to retry. Retries continue until the
  // deadline. Jitter spreads the retries of calls that were refused together.
  return hint->delay + Jittered();
}

}  // namespace quantd::client
