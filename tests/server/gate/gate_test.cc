#include "server/gate/gate.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "server/gate/steady_time.h"
#include "tests/server/gate/gate_fixture.h"

namespace quantd {
namespace {

TEST_F(GateTest, CountsMemoryUntilItIsReleased) {
  {
    Lease lease = Admitted(600);
    EXPECT_EQ(gate_->receiving_used(), 600u);
    lease.Arrived(620, 590, now_);
    EXPECT_EQ(gate_->receiving_used(), 620u);
    EXPECT_EQ(
        gate_->AdmitHead(70, absl::InfiniteFuture(), now_, &unused_, &lease)
            .outcome,
        Outcome::kGranted);
    EXPECT_EQ(Payload(500, &unused_, &lease), Outcome::kGranted);
    EXPECT_EQ(gate_->payload_used(0), 500u);
    EXPECT_EQ(gate_->head_used(), 70u);
    lease.HoldReceiving(10);
    lease.ShrinkPayload(600);  // never grows
    lease.ShrinkHead(80);
    EXPECT_EQ(gate_->used(), 580u);
    Lease moved = std::move(lease);
    lease.Reset();
    EXPECT_EQ(gate_->used(), 580u);
    moved.ShrinkHead(1);
    moved.ShrinkPayload(0);
    EXPECT_EQ(gate_->used(), 11u);
    moved = Lease();
    EXPECT_EQ(gate_->used(), 0u);
    moved.Reset();
  }
  EXPECT_EQ(gate_->used(), 0u);
}

TEST_F(GateTest, LeaseWithoutAMessageReleasesPayload) {
  Lease lease;
  ASSERT_EQ(Payload(500, &unused_, &lease, -1, true), Outcome::kGranted);
  EXPECT_EQ(gate_->streams_used(0), 1u);
  lease.Reset();
  EXPECT_EQ(gate_->used(), 0u);
  EXPECT_EQ(gate_->streams_used(0), 0u);
}

TEST_F(GateTest, MessageGrowsWithinTheLimit) {
  Lease lease = Admitted(kMiB);
  EXPECT_TRUE(lease.GrowReceiving(63 * kMiB));
  EXPECT_EQ(gate_->receiving_used(), 63 * kMiB);
  EXPECT_TRUE(lease.GrowReceiving(1));  // never shrinks
  EXPECT_FALSE(lease.GrowReceiving(65 * kMiB));
  EXPECT_EQ(lease.receiving(), 63 * kMiB);
  // A reply may hold more than the limit.
  lease.HoldReceiving(65 * kMiB);
  EXPECT_EQ(gate_->receiving_used(), 65 * kMiB);
}

TEST_F(GateTest, SmallMethodsDoNotWait) {
  Lease full = Admitted(64 * kMiB);
  Lease small = gate_->Track(100, "b");
  EXPECT_EQ(gate_->receiving_used(), 64 * kMiB + 100);
}

TEST_F(GateTest, WaiterGetsALeaseWithTheRequestedMemory) {
  Lease first = Admitted(60 * kMiB);
  TestWaiter waits;
  Lease lease;
  ASSERT_EQ(Message(8 * kMiB, "b", &waits, &lease).outcome, Outcome::kWaiting);
  EXPECT_EQ(gate_->waiting(), 1u);
  EXPECT_TRUE(gate_->OthersWaitSince(now_));
  EXPECT_FALSE(gate_->OthersWaitSince(now_ - absl::Milliseconds(1)));
  gate_->Decide(now_);
  EXPECT_EQ(waits.told, 0);
  first.Reset();
  gate_->Decide(now_);
  EXPECT_EQ(waits.told, 1);
  EXPECT_EQ(waits.outcome, Outcome::kGranted);
  EXPECT_EQ(waits.lease.receiving(), 8 * kMiB);
  EXPECT_FALSE(gate_->OthersWaitSince(now_));

  // A request for payload takes over the message's lease.
  Lease other = Admitted(1);
  ASSERT_EQ(Payload(64 * kMiB, &unused_, &other), Outcome::kGranted);
  TestWaiter again;
  ASSERT_EQ(Payload(kMiB, &again, &waits.lease), Outcome::kWaiting);
  EXPECT_EQ(waits.lease.receiving(), 0u);
  EXPECT_EQ(gate_->receiving_used(), 8 * kMiB + 1);
  other.Reset();
  gate_->Decide(now_);
  EXPECT_EQ(again.lease.payload(), kMiB);
  EXPECT_EQ(again.lease.receiving(), 8 * kMiB);
}

TEST_F(GateTest, WaitsUntilItsDeadlineOrTheLongestWait) {
  Lease full = Admitted(64 * kMiB);
  TestWaiter soon, late;
  Lease lease;
  const absl::Time deadline = now_ + absl::Seconds(3);
  ASSERT_EQ(Message(1, "b", &soon, &lease, Priority::kNormal, deadline).outcome,
            Outcome::kWaiting);
  ASSERT_EQ(Message(1, "c", &late, &lease).outcome, Outcome::kWaiting);
  gate_->Decide(now_);
  for (int i = 0; i < 9 && late.told == 0; ++i) {
    now_ = gate_->NextDecision();
    gate_->Decide(now_);
    EXPECT_EQ(soon.told != 0, now_ >= deadline);
  }
  EXPECT_EQ(soon.outcome, Outcome::kBusy);
  EXPECT_EQ(late.outcome, Outcome::kBusy);
  EXPECT_EQ(now_ - kOpened, absl::Seconds(10));
  EXPECT_EQ(gate_->NextDecision(), absl::InfiniteFuture());
}

TEST_F(GateTest, LimitsTheNumberAndBytesOfWaiters) {
  Make({64 * kMiB}, {2}, 3);
  Lease full = Admitted(64 * kMiB);
  TestWaiter waits[5];
  Lease lease;
  ASSERT_EQ(Message(60 * kMiB, "a", &waits[0], &lease).outcome,
            Outcome::kWaiting);
  EXPECT_EQ(Message(5 * kMiB, "a", &waits[1], &lease).outcome, Outcome::kBusy);
  EXPECT_EQ(Message(kMiB, "a", &waits[1], &lease).outcome, Outcome::kWaiting);
  EXPECT_EQ(Message(kMiB, "a", &waits[2], &lease).outcome, Outcome::kWaiting);
  EXPECT_EQ(Message(kMiB, "a", &waits[3], &lease).outcome, Outcome::kBusy);
  // A request that can never fit is refused.
  EXPECT_EQ(Message(65 * kMiB, "b", &waits[3], &lease).outcome, Outcome::kBusy);
  // Another identity may wait; instead, the latest waiter of the largest share
  // is refused.
  EXPECT_EQ(Message(kMiB, "b", &waits[3], &lease).outcome, Outcome::kWaiting);
  EXPECT_EQ(gate_->waiting(), 3u);
  gate_->Decide(now_);
  EXPECT_EQ(waits[2].outcome, Outcome::kBusy);
  EXPECT_EQ(waits[0].told + waits[1].told + waits[3].told, 0);
  full.Reset();
  gate_->Decide(now_);
  for (int i : {0, 3}) EXPECT_EQ(waits[i].outcome, Outcome::kGranted);
  // An identity with a large share must leave half to others, as long as
  // another one holds memory or did so a short time ago.
  EXPECT_EQ(waits[1].told, 0);
  waits[3].lease.Reset();
  gate_->Decide(now_);
  EXPECT_EQ(waits[1].told, 0);
  for (int i = 0; i < 2; ++i) {
    now_ += absl::Seconds(1);
    gate_->Decide(now_);
  }
  EXPECT_EQ(waits[1].outcome, Outcome::kGranted);
}

// Without this rule, a caller that does not read its replies would hold all
// memory until its calls are cancelled.
TEST_F(GateTest, IdentityAboveItsPartLeavesHalfToOthers) {
  Lease good = Admitted(kMiB, "good");
  std::vector<Lease> bad;
  for (int i = 0; i < 3; ++i) bad.push_back(Admitted(10 * kMiB, "bad"));
  TestWaiter more, of_good, payload;
  Lease lease;
  ASSERT_EQ(Message(10 * kMiB, "bad", &more, &lease).outcome,
            Outcome::kWaiting);
  // Its small calls pass.
  TestWaiter small;
  ASSERT_EQ(Message(100 << 10, "bad", &small, &lease).outcome,
            Outcome::kWaiting);
  gate_->Decide(now_);
  EXPECT_EQ(small.outcome, Outcome::kGranted);
  small.lease.Reset();
  // Its waiter does not block others, although it has waited for longer than
  // waiters usually yield.
  now_ += absl::Seconds(4);
  ASSERT_EQ(Message(16 * kMiB, "new", &of_good, &lease).outcome,
            Outcome::kWaiting);
  gate_->Decide(now_);
  EXPECT_EQ(of_good.outcome, Outcome::kGranted);
  EXPECT_EQ(more.told, 0);
  // After half of the longest wait it is served like any other waiter.
  of_good.lease.Reset();
  gate_->Decide(now_);
  EXPECT_EQ(more.told, 0);
  EXPECT_EQ(gate_->NextDecision(), kOpened + absl::Seconds(5));
  now_ = kOpened + absl::Seconds(5);
  gate_->Decide(now_);
  EXPECT_EQ(more.outcome, Outcome::kGranted);
  // A device's memory is shared in the same way.
  ASSERT_EQ(Payload(30 * kMiB, &unused_, &bad[0]), Outcome::kGranted);
  EXPECT_EQ(Payload(30 * kMiB, &payload, &bad[1]), Outcome::kWaiting);
  gate_->Forget(&payload);
  EXPECT_EQ(Payload(30 * kMiB, &unused_, &good), Outcome::kGranted);
  // A single identity may hold everything.
  good.Reset();
  for (int i = 0; i < 2; ++i) {
    now_ += absl::Seconds(1);
    gate_->Decide(now_);
  }
  EXPECT_EQ(Payload(30 * kMiB, &unused_, &bad[2]), Outcome::kGranted);
}

TEST_F(GateTest, ForgottenWaiterIsNeverTold) {
  Lease full = Admitted(64 * kMiB);
  TestWaiter first, second;
  EXPECT_FALSE(gate_->Forget(&first));
  Lease lease;
  ASSERT_EQ(Message(40 * kMiB, "a", &first, &lease).outcome, Outcome::kWaiting);
  ASSERT_EQ(Message(20 * kMiB, "b", &second, &lease).outcome,
            Outcome::kWaiting);
  EXPECT_TRUE(gate_->Forget(&first));
  EXPECT_FALSE(gate_->Forget(&first));
  full.Reset();
  gate_->Decide(now_);
  EXPECT_EQ(first.told, 0);
  EXPECT_EQ(second.outcome, Outcome::kGranted);
  EXPECT_FALSE(gate_->Forget(&second));
}

TEST_F(GateTest, RefusedWaiterCanBeForgotten) {
  Make({64 * kMiB}, {2}, 1);
  Lease full = Admitted(64 * kMiB);
  TestWaiter first, second;
  Lease lease;
  ASSERT_EQ(Message(2, "a", &first, &lease).outcome, Outcome::kWaiting);
  ASSERT_EQ(Message(1, "b", &second, &lease).outcome, Outcome::kWaiting);
  EXPECT_TRUE(gate_->Forget(&first));
  gate_->Decide(now_);
  EXPECT_EQ(first.told, 0);
  EXPECT_TRUE(gate_->Forget(&second));
}

TEST_F(GateTest, StopEndsAllWaitersAndAdmissions) {
  Lease full = Admitted(64 * kMiB);
  TestWaiter waits;
  Lease lease;
  ASSERT_EQ(Message(1, "a", &waits, &lease).outcome, Outcome::kWaiting);
  gate_->Stop();
  gate_->Decide(now_);
  EXPECT_EQ(waits.outcome, Outcome::kStopped);
  EXPECT_EQ(Message(1, "a", &waits, &lease).outcome, Outcome::kStopped);
  EXPECT_EQ(Payload(1, &waits, &full), Outcome::kStopped);
  EXPECT_EQ(full.receiving(), 64 * kMiB);
}

// Many waiters with one identity are served in order, one for each release,
// without additional waits.
TEST_F(GateTest, ServesWaitersOfOneIdentityInOrder) {
  Make({64 * kMiB}, {2}, 1000);
  std::vector<Lease> held;
  for (int i = 0; i < 64; ++i) held.push_back(Admitted(kMiB, "crowd"));
  std::vector<TestWaiter> crowd(64);
  Lease lease;
  for (TestWaiter& waits : crowd) {
    now_ += absl::Milliseconds(1);
    ASSERT_EQ(Message(kMiB, "crowd", &waits, &lease).outcome,
              Outcome::kWaiting);
  }
  for (size_t i = 0; i < held.size(); ++i) {
    held[i].Reset();
    gate_->Decide(now_);
    EXPECT_EQ(crowd[i].outcome, Outcome::kGranted);
    EXPECT_EQ(i + 1 < crowd.size() ? crowd[i + 1].told : 0, 0);
  }
}

struct Notified : Gate::Waiter {
  void OnAdmitted(Outcome o, Lease l) override {
    outcome = o;
    lease = std::move(l);
    told.Notify();
  }
  bool Told() { return told.WaitForNotificationWithTimeout(absl::Minutes(1)); }
  Outcome outcome = Outcome::kWaiting;
  Lease lease;
  absl::Notification told;
};

TEST_F(GateTest, ThreadDecidesAfterChangesAndAtDeadlines) {
  GateThread thread(gate_);
  Notified granted, timed_out, stopped;
  now_ = SteadyNow();
  Lease full = Admitted(64 * kMiB), lease;
  ASSERT_EQ(Message(1, "a", &granted, &lease).outcome, Outcome::kWaiting);
  full.Reset();
  ASSERT_TRUE(granted.Told());
  EXPECT_EQ(granted.outcome, Outcome::kGranted);
  granted.lease.Reset();
  full = Admitted(64 * kMiB);
  ASSERT_EQ(Message(1, "a", &timed_out, &lease, Priority::kNormal,
                    now_ + absl::Milliseconds(10))
                .outcome,
            Outcome::kWaiting);
  ASSERT_TRUE(timed_out.Told());
  EXPECT_EQ(timed_out.outcome, Outcome::kBusy);
  ASSERT_EQ(Message(1, "a", &stopped, &lease).outcome, Outcome::kWaiting);
  thread.Stop();
  ASSERT_TRUE(stopped.told.HasBeenNotified());
  EXPECT_EQ(stopped.outcome, Outcome::kStopped);
}

}  // namespace
}  // namespace quantd
