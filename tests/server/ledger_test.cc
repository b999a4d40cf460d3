#include <gtest/gtest.h>

#include <map>
#include <random>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "tests/server/ledger_fixture.h"

namespace quantd {
namespace {

TEST_F(LedgerTest, CountsWhatIsHeldAndGetsItBack) {
  Make({1000});
  {
    MemoryCharge charge;
    ASSERT_EQ(Receive(At("a"), 600, &charge, &unused_), Outcome::kGranted);
    EXPECT_EQ(ledger_->receive_used(), 600u);
    charge.Arrived(590, 620);
    EXPECT_EQ(ledger_->receive_used(), 620u);
    ASSERT_EQ(Pay(500, &charge, &unused_), Outcome::kGranted);
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

TEST_F(LedgerTest, MessageThatNeverComesGivesBackWhatItWasCharged) {
  Make({1000});
  const auto sender = At("a");
  MemoryCharge charge;
  ASSERT_EQ(Receive(sender, 8 * kMiB, &charge, &unused_), Outcome::kGranted);
  sender->received = 4 * kMiB;
  charge.Reset();
  EXPECT_EQ(ledger_->used(), 0u);
}

TEST_F(LedgerTest, PicksTheDeviceWithLeastLentAndTakesTurns) {
  Make({1000, 1000});
  const auto sender = At("a");
  MemoryCharge a = Arrived(sender), b = Arrived(sender), c = Arrived(sender);
  ASSERT_EQ(Pay(300, &a, &unused_), Outcome::kGranted);
  ASSERT_EQ(Pay(100, &b, &unused_), Outcome::kGranted);
  EXPECT_NE(a.device(), b.device());
  ASSERT_EQ(Pay(100, &c, &unused_), Outcome::kGranted);
  EXPECT_EQ(c.device(), b.device());
}

TEST_F(LedgerTest, GrantsNothingOnADeviceThatTakesNoWork) {
  using enum MemoryLedger::Availability;
  Make({4 * kMiB, 4 * kMiB});
  ledger_->SetAvailable({kLost, kTakesWork});
  MemoryCharge a = Arrived(At("a"));
  ASSERT_EQ(Pay(kMiB, &a, &unused_), Outcome::kGranted);
  EXPECT_EQ(a.device(), 1);
  // Though the first has more room.
  MemoryCharge b = Arrived(At("b"));
  ASSERT_EQ(Pay(kMiB, &b, &unused_), Outcome::kGranted);
  EXPECT_EQ(b.device(), 1);
  // One whose memory lies on the lost one.
  MemoryCharge c = Arrived(At("c"));
  EXPECT_EQ(
      ledger_->AdmitPayload(kMiB, 0, absl::InfiniteFuture(), &unused_, &c),
      Outcome::kNoDevice);
  EXPECT_GT(c.receive(), 0u);  // its message is still its own

  // Who waits is told when the last is lost, and served when one comes back.
  MemoryCharge d = Arrived(At("d"));
  TestWaiter waits;
  ASSERT_EQ(Pay(4 * kMiB, &d, &waits), Outcome::kWaiting);
  ledger_->SetAvailable({kSoon, kLost});
  EXPECT_FALSE(
      waits.told.WaitForNotificationWithTimeout(absl::Milliseconds(20)));
  ledger_->SetAvailable({kTakesWork, kLost});
  ASSERT_TRUE(waits.Told());
  EXPECT_EQ(waits.outcome, Outcome::kGranted);
  EXPECT_EQ(waits.charge.device(), 0);
  MemoryCharge e = Arrived(At("e"));
  TestWaiter last;
  ASSERT_EQ(Pay(kMiB, &e, &last), Outcome::kWaiting);
  ledger_->SetAvailable({kLost, kLost});
  ASSERT_TRUE(last.Told());
  EXPECT_EQ(last.outcome, Outcome::kNoDevice);
}

TEST_F(LedgerTest, ServesEqualsInOrder) {
  Make({1000});
  MemoryCharge first = Arrived(At("a"));
  MemoryCharge of_large = Arrived(At("b")), of_small = Arrived(At("c"));
  ASSERT_EQ(Pay(900, &first, &unused_), Outcome::kGranted);
  TestWaiter large, small;
  ASSERT_EQ(Pay(500, &of_large, &large), Outcome::kWaiting);
  // More than a quarter of what the one before waits for.
  ASSERT_EQ(Pay(126, &of_small, &small), Outcome::kWaiting);
  EXPECT_EQ(ledger_->waiting(), 2u);
  first.ShrinkPayload(700);
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_FALSE(small.told.HasBeenNotified());
  first.Reset();
  ASSERT_TRUE(large.Told());
  ASSERT_TRUE(small.Told());
  EXPECT_EQ(large.outcome, Outcome::kGranted);
  EXPECT_EQ(small.outcome, Outcome::kGranted);
}

TEST_F(LedgerTest, SmallAsksOvertakeByAQuarter) {
  Make({1000});
  MemoryCharge first = Arrived(At("a")), of_large = Arrived(At("b"));
  ASSERT_EQ(Pay(900, &first, &unused_), Outcome::kGranted);
  TestWaiter large;
  ASSERT_EQ(Pay(400, &of_large, &large), Outcome::kWaiting);
  std::vector<MemoryCharge> charges;
  std::vector<std::unique_ptr<TestWaiter>> small;
  for (int i = 0; i < 3; ++i) {
    charges.push_back(Arrived(At("c")));
    small.push_back(std::make_unique<TestWaiter>());
    ASSERT_EQ(Pay(40, &charges[i], small[i].get()), Outcome::kWaiting);
  }
  ASSERT_TRUE(small[0]->Told());
  ASSERT_TRUE(small[1]->Told());
  absl::SleepFor(absl::Milliseconds(20));
  // 120 would be more than a quarter of 400.
  EXPECT_FALSE(small[2]->told.HasBeenNotified());
  first.Reset();
  EXPECT_TRUE(large.Told());
  EXPECT_TRUE(small[2]->Told());
}

TEST_F(LedgerTest, WhoHoldsLeastGoesFirst) {
  Make({1000});
  const auto heavy = At("heavy");
  MemoryCharge first = Arrived(heavy), second = Arrived(heavy);
  MemoryCharge of_light = Arrived(At("light"));
  ASSERT_EQ(Pay(900, &first, &unused_), Outcome::kGranted);
  TestWaiter again, light;
  ASSERT_EQ(Pay(500, &second, &again), Outcome::kWaiting);
  ASSERT_EQ(Pay(600, &of_light, &light), Outcome::kWaiting);
  first.ShrinkPayload(300);
  ASSERT_TRUE(light.Told());
  EXPECT_FALSE(again.told.HasBeenNotified());
  light.charge.Reset();
  EXPECT_TRUE(again.Told());
}

TEST_F(LedgerTest, ProxyIsNotHeldToOneShare) {
  Make({1000});
  MemoryCharge first = Arrived(At("proxy")), second = Arrived(At("proxy"));
  MemoryCharge of_light = Arrived(At("light"));
  ASSERT_EQ(Pay(900, &first, &unused_), Outcome::kGranted);
  TestWaiter proxy, light;
  ASSERT_EQ(Pay(500, &second, &proxy), Outcome::kWaiting);
  ASSERT_EQ(Pay(600, &of_light, &light), Outcome::kWaiting);
  first.ShrinkPayload(300);
  EXPECT_TRUE(proxy.Told());
  EXPECT_FALSE(light.told.HasBeenNotified());
  proxy.charge.Reset();
  EXPECT_TRUE(light.Told());
}

TEST_F(LedgerTest, WhoeverWaitsLongGoesBeforeAll) {
  Make({1000});
  const auto heavy = At("heavy");
  MemoryCharge first = Arrived(heavy), second = Arrived(heavy);
  MemoryCharge of_light = Arrived(At("light"));
  ASSERT_EQ(Pay(900, &first, &unused_), Outcome::kGranted);
  TestWaiter again, light;
  ASSERT_EQ(Pay(600, &second, &again), Outcome::kWaiting);
  absl::SleepFor(absl::Milliseconds(1100));
  ASSERT_EQ(Pay(600, &of_light, &light), Outcome::kWaiting);
  first.ShrinkPayload(300);
  ASSERT_TRUE(again.Told());
  EXPECT_FALSE(light.told.HasBeenNotified());
  again.charge.Reset();
  EXPECT_TRUE(light.Told());
}

TEST_F(LedgerTest, RefusesWhenFullAndAfterTheTime) {
  Make({1000}, 1, absl::Milliseconds(50));
  MemoryCharge first, none;
  ASSERT_EQ(Receive(At("a"), 60 * kMiB, &first, &unused_), Outcome::kGranted);
  TestWaiter waits, refused;
  ASSERT_EQ(Receive(At("b"), 8 * kMiB, &none, &waits), Outcome::kWaiting);
  EXPECT_EQ(Receive(At("c"), 8 * kMiB, &none, &refused), Outcome::kFull);
  ASSERT_TRUE(waits.Told());
  EXPECT_EQ(waits.outcome, Outcome::kTimedOut);
  // The caller's own deadline may be nearer.
  MemoryCharge holder = Arrived(At("d")), hurried_charge = Arrived(At("e"));
  ASSERT_EQ(Pay(1000, &holder, &unused_), Outcome::kGranted);
  TestWaiter hurried;
  ASSERT_EQ(Pay(1, &hurried_charge, &hurried, absl::Now() - absl::Seconds(1)),
            Outcome::kWaiting);
  ASSERT_TRUE(hurried.Told());
  EXPECT_EQ(hurried.outcome, Outcome::kTimedOut);
  EXPECT_GE(ledger_->RetryDelay(), absl::Milliseconds(50));
  EXPECT_LE(ledger_->RetryDelay(), absl::Seconds(5));
}

TEST_F(LedgerTest, ForgottenWaiterIsNotToldAndNobodyStandsBehindIt) {
  Make({1000});
  MemoryCharge first = Arrived(At("a"));
  MemoryCharge of_large = Arrived(At("b")), of_small = Arrived(At("c"));
  ASSERT_EQ(Pay(800, &first, &unused_), Outcome::kGranted);
  TestWaiter large, small;
  ASSERT_EQ(Pay(500, &of_large, &large), Outcome::kWaiting);
  ASSERT_EQ(Pay(150, &of_small, &small), Outcome::kWaiting);
  EXPECT_TRUE(ledger_->Forget(&large));
  EXPECT_FALSE(ledger_->Forget(&large));
  ASSERT_TRUE(small.Told());
  EXPECT_EQ(small.outcome, Outcome::kGranted);
  EXPECT_FALSE(large.told.HasBeenNotified());
}

TEST_F(LedgerTest, OneLargestMessageAlwaysFits) {
  Make({1000});
  MemoryCharge large, small;
  ASSERT_EQ(Receive(At("a"), 60 * kMiB, &large, &unused_), Outcome::kGranted);
  // What fits into the first window comes whether it is asked for or not.
  EXPECT_EQ(Receive(At("b"), 64 << 10, &small, &unused_), Outcome::kGranted);
}

TEST_F(LedgerTest, StopTellsEveryoneAndChargesMayReturnLater) {
  Make({1000});
  MemoryCharge first = Arrived(At("a")), second = Arrived(At("b"));
  ASSERT_EQ(Pay(1000, &first, &unused_), Outcome::kGranted);
  TestWaiter waits;
  ASSERT_EQ(Pay(1, &second, &waits), Outcome::kWaiting);
  ledger_->Stop();
  ASSERT_TRUE(waits.told.HasBeenNotified());
  EXPECT_EQ(waits.outcome, Outcome::kStopped);
  waits.charge.Reset();
  MemoryCharge none;
  EXPECT_EQ(Receive(At("c"), 1, &none, &unused_), Outcome::kStopped);
  EXPECT_EQ(Pay(1, &first, &unused_), Outcome::kStopped);
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
      const auto sender = At(std::string(1, static_cast<char>('a' + t % 2)));
      for (int i = 0; i < 1000; ++i) {
        TestWaiter to_receive, for_payload;
        MemoryCharge charge;
        const size_t bytes = 1 + random() % (30 * kMiB);
        auto outcome = Receive(sender, bytes, &charge, &to_receive);
        if (outcome == Outcome::kWaiting) {
          if (random() % 4 == 0 && ledger_->Forget(&to_receive)) continue;
          to_receive.told.WaitForNotification();
          charge = std::move(to_receive.charge);
        }
        if (random() % 8 == 0) continue;
        charge.Arrived(bytes, bytes);
        outcome = Pay(random() % 500, &charge, &for_payload);
        if (outcome == Outcome::kWaiting) {
          if (random() % 4 == 0 && ledger_->Forget(&for_payload)) continue;
          for_payload.told.WaitForNotification();
          charge = std::move(for_payload.charge);
        }
        if (ledger_->receive_used() > 64 * kMiB ||
            ledger_->payload_used(0) > 1000 || ledger_->payload_used(1) > 500) {
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
