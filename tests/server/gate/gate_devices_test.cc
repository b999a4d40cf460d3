// Tests of the gate with devices that are lost and return, and of their stream
// slots.
#include <gtest/gtest.h>

#include "tests/server/gate/gate_fixture.h"

namespace quantd {
namespace {

TEST_F(GateTest, GrantsStreamSlotsByShares) {
  Lease streams[2];
  for (Lease& lease : streams) {
    lease = Admitted(1, "silent");
    ASSERT_EQ(Payload(1, &unused_, &lease, -1, true), Outcome::kGranted);
  }
  TestWaiter more[3], newcomer;
  for (TestWaiter& waits : more) {
    Lease lease = Admitted(1, "silent");
    ASSERT_EQ(Payload(1, &waits, &lease, -1, true), Outcome::kWaiting);
  }
  Lease lease = Admitted(1, "newcomer");
  ASSERT_EQ(Payload(1, &newcomer, &lease, -1, true), Outcome::kWaiting);
  // A call that is not a stream needs no stream slot.
  Lease call = Admitted(1, "silent");
  TestWaiter served;
  ASSERT_EQ(Payload(kMiB, &served, &call), Outcome::kWaiting);
  gate_->Decide(now_);
  EXPECT_EQ(served.outcome, Outcome::kGranted);
  EXPECT_TRUE(gate_->OthersWaitSince(now_));
  streams[0].ShrinkPayload(0);
  gate_->Decide(now_);
  EXPECT_EQ(newcomer.outcome, Outcome::kGranted);
  EXPECT_EQ(gate_->streams_used(0), 2u);
  for (TestWaiter& waits : more) EXPECT_TRUE(gate_->Forget(&waits));
}

TEST_F(GateTest, PicksTheDeviceWithMostFreeMemory) {
  Make({1000, 1000}, {0, 1});
  Lease a = Admitted(1), b = Admitted(1), c = Admitted(1), s = Admitted(1);
  ASSERT_EQ(Payload(300, &unused_, &a), Outcome::kGranted);
  ASSERT_EQ(Payload(100, &unused_, &b), Outcome::kGranted);
  EXPECT_NE(a.device(), b.device());
  ASSERT_EQ(Payload(100, &unused_, &c), Outcome::kGranted);
  EXPECT_EQ(c.device(), b.device());
  ASSERT_EQ(Payload(1, &unused_, &s, -1, true), Outcome::kGranted);
  EXPECT_EQ(s.device(), 1);  // the only device with slots
}

TEST_F(GateTest, AWaiterForOneDeviceDoesNotBlockAnother) {
  Make({1000, 1000}, {0, 0});
  Lease a = Admitted(1), b = Admitted(1), c = Admitted(1);
  ASSERT_EQ(Payload(900, &unused_, &a, 0), Outcome::kGranted);
  TestWaiter first, second;
  ASSERT_EQ(Payload(500, &first, &b, 0), Outcome::kWaiting);
  ASSERT_EQ(Payload(400, &second, &c), Outcome::kWaiting);
  gate_->Decide(now_);
  EXPECT_EQ(first.told, 0);
  ASSERT_EQ(second.outcome, Outcome::kGranted);
  EXPECT_EQ(second.lease.device(), 1);
  a.Reset();
  gate_->Decide(now_);
  EXPECT_EQ(first.outcome, Outcome::kGranted);
}

TEST_F(GateTest, GrantsNothingOnAnUnavailableDevice) {
  using enum Gate::Availability;
  Make({4 * kMiB, 4 * kMiB}, {1, 1});
  gate_->SetAvailable({kLost, kTakesWork});
  Lease a = Admitted(1), b = Admitted(1), c = Admitted(1), d = Admitted(1);
  ASSERT_EQ(Payload(kMiB, &unused_, &a), Outcome::kGranted);
  EXPECT_EQ(a.device(), 1);
  ASSERT_EQ(Payload(kMiB, &unused_, &b), Outcome::kGranted);
  EXPECT_EQ(b.device(), 1);  // although the other one has more free memory
  EXPECT_EQ(Payload(kMiB, &unused_, &c, 0), Outcome::kNoDevice);
  EXPECT_EQ(c.receiving(), 1u);  // it still holds its message
  // A call waits while a device may return, and fails when the last one is
  // lost.
  TestWaiter waits, last;
  ASSERT_EQ(Payload(4 * kMiB, &waits, &c), Outcome::kWaiting);
  gate_->SetAvailable({kSoon, kLost});
  gate_->Decide(now_);
  EXPECT_EQ(waits.told, 0);
  gate_->SetAvailable({kTakesWork, kLost});
  gate_->Decide(now_);
  ASSERT_EQ(waits.outcome, Outcome::kGranted);
  EXPECT_EQ(waits.lease.device(), 0);
  ASSERT_EQ(Payload(kMiB, &last, &d), Outcome::kWaiting);
  gate_->SetAvailable({kLost, kLost});
  gate_->Decide(now_);
  EXPECT_EQ(last.outcome, Outcome::kNoDevice);
  EXPECT_EQ(last.lease.receiving(), 1u);
}

}  // namespace
}  // namespace quantd
