#include "server/ledger.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace quantd {
namespace {

using Outcome = MemoryLedger::Outcome;

struct TestWaiter : MemoryLedger::Waiter {
  void OnMemory(Outcome o, MemoryCharge c) override {
    outcome = o;
    charge = std::move(c);
    told.Notify();
  }
  bool Told() { return told.WaitForNotificationWithTimeout(absl::Minutes(1)); }
  absl::Notification told;
  Outcome outcome = Outcome::kStopped;
  MemoryCharge charge;
};

MemoryLedger::Ask AskFor(size_t receive, size_t payload) {
  MemoryLedger::Ask ask;
  ask.need = {receive, payload};
  return ask;
}

class LedgerTest : public testing::Test {
 protected:
  void Make(std::vector<size_t> payload, size_t max_waiting = 8,
            absl::Duration max_wait = absl::Minutes(2)) {
    ledger_ =
        MemoryLedger::Create({100, std::move(payload), max_waiting, max_wait});
  }
  Outcome Admit(const MemoryLedger::Ask& ask, MemoryCharge* charge) {
    return ledger_->Admit(ask, &unused_, charge);
  }
  void TearDown() override { ledger_->Stop(); }

  std::shared_ptr<MemoryLedger> ledger_;
  TestWaiter unused_;
};

TEST_F(LedgerTest, CountsWhatIsHeldAndGetsItBack) {
  Make({1000});
  {
    MemoryCharge charge;
    ASSERT_EQ(Admit(AskFor(60, 500), &charge), Outcome::kGranted);
    EXPECT_EQ(ledger_->receive_used(), 60u);
    EXPECT_EQ(ledger_->payload_used(0), 500u);
    charge.ShrinkReceive(10);
    charge.ShrinkPayload(600);  // never grows
    EXPECT_EQ(ledger_->used(), 510u);
    MemoryCharge moved = std::move(charge);
    charge.Reset();
    EXPECT_EQ(ledger_->used(), 510u);
    moved.ShrinkReceive(0);
    EXPECT_EQ(ledger_->used(), 500u);
  }
  EXPECT_EQ(ledger_->used(), 0u);
}

TEST_F(LedgerTest, PicksTheDeviceWithLeastLentAndTakesTurns) {
  Make({1000, 1000});
  MemoryCharge a, b, c;
  ASSERT_EQ(Admit(AskFor(0, 300), &a), Outcome::kGranted);
  ASSERT_EQ(Admit(AskFor(0, 100), &b), Outcome::kGranted);
  EXPECT_NE(a.device(), b.device());
  ASSERT_EQ(Admit(AskFor(0, 100), &c), Outcome::kGranted);
  EXPECT_EQ(c.device(), b.device());
  a.Reset(), b.Reset(), c.Reset();
  MemoryCharge d, e;
  ASSERT_EQ(Admit(AskFor(0, 0), &d), Outcome::kGranted);
  ASSERT_EQ(Admit(AskFor(0, 0), &e), Outcome::kGranted);
  EXPECT_NE(d.device(), e.device());
}

TEST_F(LedgerTest, ServesInOrderAndNeverOvertakes) {
  Make({1000});
  MemoryCharge first;
  ASSERT_EQ(Admit(AskFor(0, 900), &first), Outcome::kGranted);
  TestWaiter big, small;
  MemoryCharge none;
  ASSERT_EQ(ledger_->Admit(AskFor(0, 500), &big, &none), Outcome::kWaiting);
  // It would fit, but someone was here before.
  ASSERT_EQ(ledger_->Admit(AskFor(0, 50), &small, &none), Outcome::kWaiting);
  EXPECT_EQ(ledger_->waiting(), 2u);
  first.Reset();
  ASSERT_TRUE(big.Told());
  ASSERT_TRUE(small.Told());
  EXPECT_EQ(big.outcome, Outcome::kGranted);
  EXPECT_EQ(small.outcome, Outcome::kGranted);
  EXPECT_EQ(ledger_->used(), 550u);
}

TEST_F(LedgerTest, RefusesWhenFullAndAfterTheTime) {
  Make({1000}, 1, absl::Milliseconds(50));
  MemoryCharge first, none;
  ASSERT_EQ(Admit(AskFor(0, 1000), &first), Outcome::kGranted);
  TestWaiter waits, refused;
  ASSERT_EQ(ledger_->Admit(AskFor(0, 1), &waits, &none), Outcome::kWaiting);
  EXPECT_EQ(ledger_->Admit(AskFor(0, 1), &refused, &none), Outcome::kFull);
  ASSERT_TRUE(waits.Told());
  EXPECT_EQ(waits.outcome, Outcome::kTimedOut);
  // The caller's own deadline may be nearer.
  TestWaiter hurried;
  MemoryLedger::Ask ask = AskFor(0, 1);
  ask.deadline = absl::Now() - absl::Seconds(1);
  ASSERT_EQ(ledger_->Admit(ask, &hurried, &none), Outcome::kWaiting);
  ASSERT_TRUE(hurried.Told());
  EXPECT_EQ(hurried.outcome, Outcome::kTimedOut);
  EXPECT_GE(ledger_->RetryDelay(), absl::Milliseconds(50));
  EXPECT_LE(ledger_->RetryDelay(), absl::Seconds(5));
}

TEST_F(LedgerTest, ForgottenWaiterIsNotToldAndNobodyStandsBehindIt) {
  Make({1000});
  MemoryCharge first, none;
  ASSERT_EQ(Admit(AskFor(0, 900), &first), Outcome::kGranted);
  TestWaiter big, small;
  ASSERT_EQ(ledger_->Admit(AskFor(0, 500), &big, &none), Outcome::kWaiting);
  ASSERT_EQ(ledger_->Admit(AskFor(0, 50), &small, &none), Outcome::kWaiting);
  EXPECT_TRUE(ledger_->Forget(&big));
  EXPECT_FALSE(ledger_->Forget(&big));
  ASSERT_TRUE(small.Told());
  EXPECT_EQ(small.outcome, Outcome::kGranted);
  EXPECT_FALSE(big.told.HasBeenNotified());
}

TEST_F(LedgerTest, GrowerGoesFirstAndIsAlone) {
  Make({1000});
  MemoryCharge first, grower, none;
  ASSERT_EQ(Admit(AskFor(0, 600), &first), Outcome::kGranted);
  ASSERT_EQ(Admit(AskFor(0, 300), &grower), Outcome::kGranted);
  TestWaiter ordinary, growing, another;
  ASSERT_EQ(ledger_->Admit(AskFor(0, 600), &ordinary, &none),
            Outcome::kWaiting);
  MemoryLedger::Ask more = AskFor(0, 500);
  more.device = grower.device();
  more.grow = true;
  ASSERT_EQ(ledger_->Admit(more, &growing, &none), Outcome::kWaiting);
  EXPECT_EQ(ledger_->Admit(more, &another, &none), Outcome::kFull);
  first.Reset();
  ASSERT_TRUE(growing.Told());
  grower.Merge(std::move(growing.charge));
  EXPECT_EQ(grower.held().payload, 800u);
  EXPECT_FALSE(ordinary.told.HasBeenNotified());
  grower.Reset();
  ASSERT_TRUE(ordinary.Told());
  EXPECT_EQ(ordinary.outcome, Outcome::kGranted);
}

TEST_F(LedgerTest, StopTellsEveryoneAndChargesMayReturnLater) {
  Make({1000});
  MemoryCharge first, none;
  ASSERT_EQ(Admit(AskFor(0, 1000), &first), Outcome::kGranted);
  TestWaiter waits;
  ASSERT_EQ(ledger_->Admit(AskFor(0, 1), &waits, &none), Outcome::kWaiting);
  ledger_->Stop();
  ASSERT_TRUE(waits.told.HasBeenNotified());
  EXPECT_EQ(waits.outcome, Outcome::kStopped);
  EXPECT_EQ(Admit(AskFor(0, 1), &none), Outcome::kStopped);
  first.Reset();
  EXPECT_EQ(ledger_->used(), 0u);
}

TEST_F(LedgerTest, ManyThreadsNeverExceedTheLimitsAndEndAtZero) {
  Make({1000, 500}, 64);
  std::atomic<bool> exceeded = false;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 2000; ++i) {
        TestWaiter waiter;
        MemoryCharge charge;
        const auto outcome = ledger_->Admit(
            AskFor(random() % 90, random() % 500), &waiter, &charge);
        if (outcome == Outcome::kWaiting) {
          if (random() % 4 == 0 && ledger_->Forget(&waiter)) continue;
          waiter.told.WaitForNotification();
          charge = std::move(waiter.charge);
        }
        if (ledger_->receive_used() > 100 || ledger_->payload_used(0) > 1000 ||
            ledger_->payload_used(1) > 500) {
          exceeded = true;
        }
        charge.ShrinkPayload(10);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(exceeded);
  EXPECT_EQ(ledger_->used(), 0u);
  EXPECT_EQ(ledger_->waiting(), 0u);
}

}  // namespace
}  // namespace quantd
