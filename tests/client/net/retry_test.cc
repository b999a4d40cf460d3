#include "client/net/retry.h"

#include "absl/strings/cord.h"
#include "client/call/error_details.h"
#include "quantd.pb.h"
#include "tests/testing/matchers.h"

namespace quantd::client {
namespace {

using std::chrono::milliseconds;

absl::Status Unavailable() {
  absl::Status s = absl::UnavailableError("gone");
  SetRetryHint(&s, milliseconds(0));
  return s;
}

TEST(Backoff, GrowsToItsCapWithJitter) {
  RetryBudget budget;
  const RetryPolicy policy = {.max_attempts = 12,
                              .initial_backoff = milliseconds(100),
                              .max_backoff = milliseconds(800),
                              .multiplier = 2};
  Backoff backoff(policy, &budget, 1);
  int64_t base = 100;
  for (int i = 0; i < 11; ++i) {
    const auto delay = backoff.Next(Unavailable());
    ASSERT_TRUE(delay.has_value());
    EXPECT_GE(delay->count(), base / 2);
    EXPECT_LE(delay->count(), base);
    base = std::min<int64_t>(base * 2, 800);
  }
  EXPECT_FALSE(backoff.Next(Unavailable()).has_value());

  Backoff one(policy, &budget, 2);
  Backoff other(policy, &budget, 3);
  EXPECT_NE(one.Next(Unavailable()), other.Next(Unavailable()));
}

TEST(Backoff, DoesNotRetryWithoutAHint) {
  RetryBudget budget;
  Backoff backoff({}, &budget, 1);
  EXPECT_FALSE(backoff.Next(absl::UnavailableError("")).has_value());
  EXPECT_FALSE(backoff.Next(absl::InvalidArgumentError("")).has_value());
}

TEST(Backoff, RetriesOnceAfterAQuotaKilledTheStream) {
  RetryBudget budget;
  Backoff backoff({}, &budget, 1);
  absl::Status s = absl::ResourceExhaustedError("");
  SetRetryHint(&s, milliseconds(0));
  const auto delay = backoff.Next(s);
  ASSERT_TRUE(delay.has_value());
  EXPECT_GE(delay->count(), 1000);
  EXPECT_FALSE(backoff.Next(s).has_value());
}

TEST(Backoff, RetriesABusyServerWithoutLimit) {
  RetryBudget budget;
  Backoff backoff({.max_attempts = 2}, &budget, 1);
  absl::Status s = absl::ResourceExhaustedError("");
  SetRetryHint(&s, milliseconds(40));
  for (int i = 0; i < 50; ++i) {
    const auto delay = backoff.Next(s);
    ASSERT_TRUE(delay.has_value());
    EXPECT_GT(delay->count(), 40);
  }
}

absl::Status DeviceFault() {
  absl::Status s = absl::InternalError("device cuda:0 failed");
  SetServerError(&s, {ErrorReason::kDeviceFault});
  return s;
}

TEST(Backoff, MovesToAnotherServerMaxAttemptsTimes) {
  RetryBudget budget;
  Backoff backoff({.max_attempts = 3}, &budget, 1);
  EXPECT_TRUE(backoff.MayMove(Unavailable()));
  EXPECT_TRUE(backoff.MayMove(Unavailable()));
  EXPECT_FALSE(backoff.MayMove(Unavailable()));
  EXPECT_FALSE(backoff.Next(Unavailable()).has_value());
  Backoff off({.max_attempts = 1}, &budget, 1);
  EXPECT_FALSE(off.MayMove(Unavailable()));
  EXPECT_FALSE(off.MayMove(DeviceFault()));
}

TEST(Backoff, MovesOnceAfterADeviceFaultAndNeverAfterACallersError) {
  RetryBudget budget;
  Backoff backoff({}, &budget, 1);
  EXPECT_TRUE(backoff.MayMove(DeviceFault()));
  EXPECT_FALSE(backoff.MayMove(DeviceFault()));
  EXPECT_FALSE(backoff.Next(DeviceFault()).has_value());
  EXPECT_FALSE(backoff.MayMove(absl::InvalidArgumentError("")));
  EXPECT_FALSE(backoff.MayMove(absl::InternalError("")));
  EXPECT_FALSE(backoff.MayMove(absl::DeadlineExceededError("")));
  EXPECT_FALSE(backoff.MayMove(absl::UnauthenticatedError("")));
}

TEST(Backoff, DoesNotMoveWithoutBudgetOrAfterAQuotaKill) {
  RetryBudget budget;
  while (budget.Spend()) {
  }
  Backoff backoff({}, &budget, 1);
  EXPECT_FALSE(backoff.MayMove(Unavailable()));
  absl::Status killed = absl::ResourceExhaustedError("");
  SetRetryHint(&killed, milliseconds(0));
  EXPECT_FALSE(backoff.MayMove(killed));
}

TEST(RetryBudget, EmptiesAndRefills) {
  RetryBudget budget;
  int affordable = 0;
  while (budget.Spend()) ++affordable;
  EXPECT_EQ(affordable, 49);
  EXPECT_FALSE(budget.Spend());
  for (int i = 0; i < 10; ++i) budget.Refund();
  EXPECT_TRUE(budget.Spend());
}

}  // namespace
}  // namespace quantd::client
