#include "server/ledger.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace quantd {
namespace {

using Outcome = MemoryLedger::Outcome;
using Revocation = MemoryLedger::Revocation;

constexpr size_t kMiB = 1 << 20;

struct TestWaiter : MemoryLedger::Waiter {
  void OnMemory(Outcome o, MemoryCharge c) override {
    outcome = o;
    charge = std::move(c);
    told.Notify();
  }
  void Revoke(Revocation why) override {
    revoked = true;
    revocation = why;
  }
  bool Told() { return told.WaitForNotificationWithTimeout(absl::Minutes(1)); }
  absl::Notification told;
  Outcome outcome = Outcome::kStopped;
  std::atomic<bool> revoked = false;
  Revocation revocation = Revocation::kOthersWait;
  MemoryCharge charge;
};

class TestSender : public Sender {
 public:
  explicit TestSender(std::string host) : Sender(std::move(host)) {}
  std::optional<uint64_t> Received() const override { return received.load(); }
  bool HasUnread() const override { return unread; }
  std::atomic<uint64_t> received = 0;
  std::atomic<bool> unread = false;
};

// 64 MiB to receive, 48 of them for messages on their way.
class LedgerTest : public testing::Test {
 protected:
  void Make(std::vector<size_t> payload, size_t max_waiting = 8,
            absl::Duration max_wait = absl::Minutes(2)) {
    MemoryLedger::Limits limits;
    limits.receive = 64 * kMiB;
    limits.arriving = 48 * kMiB;
    limits.payload = std::move(payload);
    limits.max_waiting = max_waiting;
    limits.max_wait = max_wait;
    limits.trusted = [](std::string_view host) { return host == "proxy"; };
    ledger_ = MemoryLedger::Create(std::move(limits));
  }
  void TearDown() override { ledger_->Stop(); }

  std::shared_ptr<TestSender> At(const std::string& host) {
    return std::make_shared<TestSender>(host);
  }
  Outcome Receive(const std::shared_ptr<Sender>& sender, size_t need,
                  MemoryCharge* charge, MemoryLedger::Waiter* waiter,
                  size_t most = 0) {
    return ledger_->AdmitReceive({sender, need, most, absl::InfiniteFuture()},
                                 waiter, charge);
  }
  // The charge of a small message that has arrived.
  MemoryCharge Arrived(const std::shared_ptr<Sender>& sender,
                       size_t bytes = 1) {
    MemoryCharge charge;
    EXPECT_EQ(Receive(sender, bytes, &charge, &unused_), Outcome::kGranted);
    charge.Arrived(bytes, bytes);
    return charge;
  }
  Outcome Pay(size_t need, MemoryCharge* charge, MemoryLedger::Waiter* waiter,
              absl::Time deadline = absl::InfiniteFuture()) {
    return ledger_->AdmitPayload(need, deadline, waiter, charge);
  }
  // As if `after` had gone by.
  void SweepAfter(absl::Duration after) { ledger_->Sweep(absl::Now() + after); }

  std::shared_ptr<MemoryLedger> ledger_;
  TestWaiter unused_;
};

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

TEST_F(LedgerTest, PromiseThatIsNotKeptIsNotCounted) {
  Make({1000});
  const auto liar = At("liar"), good = At("good");
  MemoryCharge promised, waits;
  TestWaiter waiter;
  ASSERT_EQ(Receive(liar, 60 * kMiB, &promised, &unused_), Outcome::kGranted);
  ASSERT_EQ(Receive(good, 32 * kMiB, &waits, &waiter), Outcome::kWaiting);
  SweepAfter(absl::Milliseconds(60));
  ASSERT_TRUE(waiter.Told());
  EXPECT_EQ(waiter.outcome, Outcome::kGranted);
  // Nor are those of its host, as long as nothing has come of them.
  MemoryCharge more;
  ASSERT_EQ(Receive(At("liar"), 60 * kMiB, &more, &unused_), Outcome::kGranted);
  EXPECT_LT(ledger_->receive_used(), 33 * kMiB);
  EXPECT_FALSE(unused_.revoked);
}

TEST_F(LedgerTest, MessagesOfTheDistrustedTakeHalfOfWhatIsThere) {
  Make({40 * kMiB});
  MemoryCharge first, second, third, good;
  TestWaiter waits, comes, comes_again;
  MemoryCharge all = Arrived(At("other"));
  ASSERT_EQ(Pay(40 * kMiB, &all, &unused_), Outcome::kGranted);
  ASSERT_EQ(Receive(At("slow"), 20 * kMiB, &first, &unused_),
            Outcome::kGranted);
  SweepAfter(absl::Milliseconds(60));
  first.Reset();
  // Connections of the same host that nobody knows.
  const auto known = At("slow");
  ASSERT_EQ(Receive(At("slow"), 20 * kMiB, &first, &unused_),
            Outcome::kGranted);
  ASSERT_EQ(Receive(At("slow"), 20 * kMiB, &second, &waits), Outcome::kWaiting);
  // Nobody is held up by those who wait.
  ASSERT_EQ(Receive(At("good"), 40 * kMiB, &good, &comes), Outcome::kWaiting);
  ASSERT_TRUE(comes.Told());
  EXPECT_FALSE(waits.told.HasBeenNotified());
  comes.charge.Reset();
  // A message that is here and waits for payload counts as one on its way.
  first.Arrived(20 * kMiB, 20 * kMiB);
  TestWaiter claims;
  ASSERT_EQ(Pay(20 * kMiB, &first, &claims), Outcome::kWaiting);
  SweepAfter(absl::Milliseconds(10));
  EXPECT_FALSE(waits.told.HasBeenNotified());
  // Who has taken a reply does not answer for its host.
  ledger_->Prove(*known);
  ASSERT_EQ(Receive(known, 20 * kMiB, &third, &comes_again), Outcome::kWaiting);
  ASSERT_TRUE(comes_again.Told());
  EXPECT_FALSE(waits.told.HasBeenNotified());
  all.Reset();
  ASSERT_TRUE(claims.Told());
  claims.charge.Reset();
  ASSERT_TRUE(waits.Told());
  EXPECT_EQ(waits.outcome, Outcome::kGranted);
}

TEST_F(LedgerTest, WhoBringsWhatHePromisesIsCountedInFull) {
  Make({1000});
  const auto sender = At("a");
  MemoryCharge charge;
  ASSERT_EQ(Receive(sender, 40 * kMiB, &charge, &unused_), Outcome::kGranted);
  for (int i = 1; i <= 4; ++i) {
    sender->received = i * kMiB;
    SweepAfter(i * absl::Milliseconds(60));
    EXPECT_EQ(ledger_->receive_used(), 40 * kMiB);
  }
  // What waits in the kernel is not the sender's fault.
  sender->unread = true;
  SweepAfter(absl::Milliseconds(600));
  EXPECT_EQ(ledger_->receive_used(), 40 * kMiB);
}

TEST_F(LedgerTest, UndeclaredMessageIsChargedWhatHasCome) {
  Make({1000});
  const auto sender = At("a");
  MemoryCharge charge;
  ASSERT_EQ(Receive(sender, 64 << 10, &charge, &unused_, 60 * kMiB),
            Outcome::kGranted);
  sender->received = 10 * kMiB;
  SweepAfter(absl::Milliseconds(10));
  EXPECT_EQ(ledger_->receive_used(), 10 * kMiB);
  charge.Arrived(10 * kMiB, 11 * kMiB);
  EXPECT_EQ(ledger_->receive_used(), 11 * kMiB);
}

TEST_F(LedgerTest, MoreThanThereIsRevokesWhoHasComeLeastFar) {
  Make({1000});
  std::map<int, TestWaiter> waiters;
  std::vector<std::shared_ptr<TestSender>> senders;
  std::vector<MemoryCharge> charges(3);
  for (int i = 0; i < 3; ++i) {
    senders.push_back(At(std::string(1, static_cast<char>('a' + i))));
    ASSERT_EQ(
        Receive(senders[i], 64 << 10, &charges[i], &waiters[i], 60 * kMiB),
        Outcome::kGranted);
  }
  senders[0]->received = 40 * kMiB;
  senders[1]->received = 10 * kMiB;
  senders[2]->received = 20 * kMiB;
  SweepAfter(absl::Milliseconds(10));
  EXPECT_FALSE(waiters[0].revoked);
  EXPECT_TRUE(waiters[1].revoked);
  EXPECT_FALSE(waiters[2].revoked);
  // It leaves: nobody else must.
  SweepAfter(absl::Milliseconds(20));
  EXPECT_FALSE(waiters[2].revoked);
}

TEST_F(LedgerTest, WhoStopsOnTheWayIsRevokedWhenOthersWait) {
  Make({1000});
  const auto stalled = At("a");
  TestWaiter holder, waiter;
  MemoryCharge charge, waits;
  ASSERT_EQ(Receive(stalled, 60 * kMiB, &charge, &holder), Outcome::kGranted);
  stalled->received = 50 * kMiB;
  SweepAfter(absl::Milliseconds(10));
  SweepAfter(absl::Milliseconds(500));
  EXPECT_FALSE(holder.revoked);  // nobody waits
  ASSERT_EQ(Receive(At("b"), 32 * kMiB, &waits, &waiter), Outcome::kWaiting);
  SweepAfter(absl::Milliseconds(900));
  EXPECT_TRUE(holder.revoked);
  EXPECT_EQ(holder.revocation, Revocation::kOthersWait);
  charge.Reset();
  EXPECT_TRUE(waiter.Told());
}

TEST_F(LedgerTest, MessageLongerThanLawfulIsRevoked) {
  Make({1000});
  const auto liar = At("a");
  TestWaiter waiter;
  MemoryCharge charge =
      ledger_->Track({liar, 4096, 4096, absl::InfiniteFuture()}, &waiter);
  liar->received = 4096;
  SweepAfter(absl::Milliseconds(10));
  EXPECT_FALSE(waiter.revoked);
  liar->received = 3 * kMiB;
  SweepAfter(absl::Milliseconds(20));
  EXPECT_TRUE(waiter.revoked);
  EXPECT_EQ(waiter.revocation, Revocation::kTooLong);
  // No more than it may have is charged to it.
  EXPECT_LE(ledger_->receive_used(), 4096u);
}

TEST_F(LedgerTest, DistrustedSendersLeaveHalfOfThePayload) {
  Make({1000});
  const auto bad = At("bad");
  MemoryCharge a = Arrived(bad), b = Arrived(bad), c = Arrived(At("good"));
  ledger_->Distrust(*bad);
  ASSERT_EQ(Pay(400, &a, &unused_), Outcome::kGranted);
  TestWaiter waits, good;
  ASSERT_EQ(Pay(200, &b, &waits), Outcome::kWaiting);
  ASSERT_EQ(Pay(500, &c, &good), Outcome::kWaiting);
  ASSERT_TRUE(good.Told());
  EXPECT_EQ(good.outcome, Outcome::kGranted);
  EXPECT_FALSE(waits.told.HasBeenNotified());
  a.Reset();
  good.charge.Reset();
  EXPECT_TRUE(waits.Told());
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
