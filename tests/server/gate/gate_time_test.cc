// Tests of calls that the gate refuses because they would miss their deadlines,
// and of their retry delays.
#include <gtest/gtest.h>

#include "tests/server/gate/gate_fixture.h"

namespace quantd {
namespace {

TEST_F(GateTest, RefusesCallsThatWouldMissTheirDeadlines) {
  // No call is refused while the rate is unknown.
  Lease first = Admitted(kMiB);
  first.Arrived(kMiB, kMiB, now_);
  Lease lease;
  ASSERT_EQ(Message(32 * kMiB, "a", &unused_, &lease, Priority::kNormal,
                    now_ + absl::Milliseconds(1))
                .outcome,
            Outcome::kGranted);
  lease.Reset();
  first.Reset();

  Measure(10 * kMiB);
  const auto with = [&](size_t bytes, absl::Duration time) {
    Lease unused;
    return Message(bytes, "a", &unused_, &unused, Priority::kNormal,
                   now_ + time)
        .outcome;
  };
  // An idle server admits everything.
  EXPECT_EQ(with(40 * kMiB, absl::Seconds(1)), Outcome::kGranted);
  Lease here = Admitted(20 * kMiB);
  here.Arrived(20 * kMiB, 20 * kMiB, now_);
  EXPECT_EQ(with(10 * kMiB, absl::Milliseconds(2950)), Outcome::kTooLate);
  EXPECT_EQ(with(10 * kMiB, absl::Milliseconds(4350)), Outcome::kGranted);
  EXPECT_EQ(with(10 * kMiB, absl::InfiniteDuration()), Outcome::kGranted);
  // One second of the work is done.
  now_ += absl::Seconds(1);
  EXPECT_EQ(with(10 * kMiB, absl::Milliseconds(2950)), Outcome::kGranted);
  // Messages that are arriving count as well, unless they are too slow.
  Lease coming = Admitted(10 * kMiB);
  EXPECT_EQ(with(10 * kMiB, absl::Milliseconds(2950)), Outcome::kTooLate);
  EXPECT_EQ(with(10 * kMiB, absl::Milliseconds(4350)), Outcome::kGranted);
  now_ += absl::Seconds(10);
  EXPECT_EQ(with(10 * kMiB, absl::Milliseconds(2950)), Outcome::kGranted);
}

TEST_F(GateTest, ServesWaitersBeforeANewcomerOfEqualPriority) {
  Measure(10 * kMiB);
  Lease full = Admitted(64 * kMiB);
  full.Arrived(64 * kMiB, 10 * kMiB, now_);
  TestWaiter waits, more;
  Lease lease;
  ASSERT_EQ(Message(10 * kMiB, "a", &waits, &lease).outcome, Outcome::kWaiting);
  const absl::Time deadline = now_ + absl::Milliseconds(3500);
  EXPECT_EQ(Message(10 * kMiB, "b", &more, &lease, Priority::kNormal, deadline)
                .outcome,
            Outcome::kTooLate);
  EXPECT_EQ(
      Message(10 * kMiB, "b", &more, &lease, Priority::kHigh, deadline).outcome,
      Outcome::kWaiting);
  // A waiter that can no longer meet its deadline is refused before the
  // deadline.
  now_ = deadline - absl::Milliseconds(500);
  gate_->Decide(now_);
  EXPECT_EQ(more.outcome, Outcome::kTooLate);
  EXPECT_TRUE(gate_->Forget(&waits));
}

TEST_F(GateTest, JobThatWouldEndTooLateIsNotBegun) {
  Measure(10 * kMiB);
  Lease lease = Admitted(10 * kMiB), other = Admitted(1);
  EXPECT_FALSE(
      lease.JobEndsTooLate(now_, now_));  // its message has not arrived
  lease.Arrived(10 * kMiB, 10 * kMiB, now_);
  // A job that is alone begins in any case, whatever the rate was.
  EXPECT_FALSE(lease.JobEndsTooLate(now_ + absl::Milliseconds(500), now_));
  other.Arrived(1, 1, now_);
  EXPECT_TRUE(lease.JobEndsTooLate(now_ + absl::Milliseconds(950), now_));
  EXPECT_FALSE(lease.JobEndsTooLate(now_ + absl::Milliseconds(1050), now_));
  EXPECT_FALSE(lease.JobEndsTooLate(absl::InfiniteFuture(), now_));
}

TEST_F(GateTest, RetryDelayFollowsTheWaitingWork) {
  EXPECT_EQ(gate_->RetryAfter(now_), absl::Milliseconds(50));
  Measure(10 * kMiB);
  Lease full = Admitted(64 * kMiB);
  full.Arrived(64 * kMiB, 10 * kMiB, now_);
  const auto retry = [&] {
    return absl::ToDoubleSeconds(gate_->RetryAfter(now_));
  };
  EXPECT_NEAR(retry(), 1, 0.02);
  TestWaiter waits[3];
  Lease lease;
  ASSERT_EQ(Message(20 * kMiB, "a", &waits[0], &lease).outcome,
            Outcome::kWaiting);
  EXPECT_NEAR(retry(), 3, 0.02);
  ASSERT_EQ(Message(30 * kMiB, "b", &waits[1], &lease).outcome,
            Outcome::kWaiting);
  EXPECT_EQ(retry(), 5);  // the maximum
  const Gate::Answer busy = Message(60 * kMiB, "c", &waits[2], &lease);
  EXPECT_EQ(busy.outcome, Outcome::kBusy);
  EXPECT_EQ(busy.retry_after, absl::Seconds(5));
  for (TestWaiter& w : waits) gate_->Forget(&w);
}

}  // namespace
}  // namespace quantd
