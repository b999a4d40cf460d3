// What the ledger makes of messages on their way.
#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "tests/server/ledger_fixture.h"

namespace quantd {
namespace {

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
  ASSERT_TRUE(ledger_->Forget(&waits));
  first.Arrived(20 * kMiB, 20 * kMiB);
  TestWaiter claims;
  ASSERT_EQ(Pay(20 * kMiB, &first, &claims), Outcome::kWaiting);
  ASSERT_EQ(Receive(At("slow"), 20 * kMiB, &second, &waits), Outcome::kWaiting);
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
  // It may be the window of a call that nobody has seen yet.
  SweepAfter(absl::Milliseconds(20));
  EXPECT_FALSE(waiter.revoked);
  SweepAfter(absl::Milliseconds(600));
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

TEST_F(LedgerTest, WhoBroughtTooMuchIsGrantedBytesAtALowRate) {
  Make({1000});
  const auto sender = At("a");
  MemoryCharge first, second, third, small;
  ASSERT_EQ(Receive(sender, 8 * kMiB, &first, &unused_), Outcome::kGranted);
  sender->received = 20 * kMiB;
  SweepAfter(absl::Milliseconds(10));
  SweepAfter(absl::Milliseconds(600));
  ASSERT_TRUE(unused_.revoked);
  first.Reset();
  // A second connection does not help; 16 MiB a second are granted.
  TestWaiter waits;
  const absl::Time start = absl::Now();
  ASSERT_EQ(Receive(At("a"), 4 * kMiB, &second, &unused_), Outcome::kGranted);
  second.Arrived(1, 1);
  ASSERT_EQ(Receive(At("a"), 4 * kMiB, &third, &waits), Outcome::kWaiting);
  while (!waits.told.HasBeenNotified()) {
    SweepAfter(absl::ZeroDuration());
    absl::SleepFor(absl::Milliseconds(5));
    ASSERT_LT(absl::Now() - start, absl::Minutes(1));
  }
  EXPECT_EQ(waits.outcome, Outcome::kGranted);
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(240));
  // Small messages and other hosts wait for nobody.
  EXPECT_EQ(Receive(At("a"), 1000, &small, &unused_), Outcome::kGranted);
  MemoryCharge other;
  EXPECT_EQ(Receive(At("b"), 8 * kMiB, &other, &unused_), Outcome::kGranted);
}

TEST_F(LedgerTest, StrangersHaveASmallBacklogUntilTheyHaveProvenThemselves) {
  Make({40 * kMiB});
  using Backlog = Sender::Backlog;
  using Standing = MemoryLedger::Standing;
  const auto known = At("host");
  MemoryCharge small, large;
  ASSERT_EQ(Receive(known, 1000, &small, &unused_), Outcome::kGranted);
  EXPECT_EQ(known->backlog, Backlog::kSmall);
  ASSERT_EQ(Receive(known, 4 * kMiB, &large, &unused_), Outcome::kGranted);
  EXPECT_EQ(known->backlog, Backlog::kWindow);
  ledger_->Prove(*known);
  EXPECT_EQ(known->backlog, Backlog::kAny);

  const auto stalling = At("stalling");
  ledger_->Distrust(*stalling);
  EXPECT_EQ(ledger_->StandingOf(*At("stalling")), Standing::kDistrusted);
  ledger_->Prove(*stalling);
  EXPECT_EQ(ledger_->StandingOf(*At("stalling")), Standing::kDistrusted);

  const auto outlaw = At("host");
  EXPECT_EQ(ledger_->StandingOf(*outlaw), Standing::kGood);
  ledger_->Outlaw(*outlaw);
  EXPECT_TRUE(ledger_->Outlawed(*outlaw));
  EXPECT_EQ(ledger_->StandingOf(*At("host")), Standing::kOutlawed);
  EXPECT_FALSE(ledger_->Outlawed(*At("other")));
  // Who is proven does not answer for its host.
  EXPECT_FALSE(ledger_->Outlawed(*known));
  EXPECT_EQ(known->backlog, Backlog::kAny);
  MemoryCharge again;
  ASSERT_EQ(Receive(outlaw, 4 * kMiB, &again, &unused_), Outcome::kGranted);
  EXPECT_EQ(outlaw->backlog, Backlog::kSmall);
  ledger_->Prove(*outlaw);
  EXPECT_EQ(outlaw->backlog, Backlog::kSmall);

  const auto proxy = At("proxy");
  ledger_->Outlaw(*proxy);
  EXPECT_EQ(ledger_->StandingOf(*proxy), Standing::kTrusted);
}

TEST_F(LedgerTest, CallsThatWaitAndThoseThatWereLeftAccountForAWindowEach) {
  Make({40 * kMiB});
  const auto sender = At("a");
  const uint64_t window = ledger_->limits().window;
  MemoryCharge second;
  MemoryCharge large;
  ASSERT_EQ(Receive(sender, 40 * kMiB, &large, &unused_), Outcome::kGranted);
  std::vector<TestWaiter> crowd(4);
  const uint64_t before = 40 * kMiB;
  sender->received = before + 8 * window;
  for (TestWaiter& waiter : crowd) {
    ASSERT_EQ(Receive(sender, 40 * kMiB, &second, &waiter), Outcome::kWaiting);
  }
  const uint64_t left = ledger_->Unexplained(*sender);
  for (TestWaiter& waiter : crowd) ASSERT_TRUE(ledger_->Forget(&waiter));
  EXPECT_NEAR(static_cast<double>(ledger_->Unexplained(*sender) - left),
              static_cast<double>(4 * window), 8192);
  for (int i = 0; i < 4; ++i) ledger_->EndUnread(*sender, false);
  EXPECT_NEAR(static_cast<double>(ledger_->Unexplained(*sender)),
              static_cast<double>(left), 8192);
}

// Calls that their client leaves before they are read: as many windows as they
// may have brought are believed, as fast as guesses are and no faster.
TEST_F(LedgerTest, WhoLeavesCallsUnreadIsOwedNothing) {
  Make({40 * kMiB});
  const uint64_t window = ledger_->limits().window;
  const auto honest = At("honest"), flood = At("flood");
  honest->received = 12 * window;
  for (int i = 0; i < 12; ++i) ledger_->EndUnread(*honest, true);
  const uint64_t at_first = ledger_->Unexplained(*honest);
  EXPECT_GT(at_first, 4 * window);
  uint64_t left = at_first;
  for (int i = 0; i < 1000 && left != 0; ++i) {
    absl::SleepFor(absl::Milliseconds(20));
    left = ledger_->Unexplained(*honest);
  }
  EXPECT_EQ(left, 0u);
  flood->received = 40 * kMiB;
  for (int i = 0; i < 1000; ++i) ledger_->EndUnread(*flood, true);
  EXPECT_GT(ledger_->Unexplained(*flood), 30 * kMiB);
  // Of those that the server refused each had a window.
  const auto refused = At("refused");
  refused->received = 12 * window;
  for (int i = 0; i < 12; ++i) ledger_->EndUnread(*refused, false);
  EXPECT_EQ(ledger_->Unexplained(*refused), 0u);
}

// What its sender may bring when it likes is no promise that can be broken, but
// may not be longer than it may be.
TEST_F(LedgerTest, AnAnswerThatMayComeLateIsNoStallAndIsSeenIfItIsTooLong) {
  Make({1000});
  const auto sender = At("a");
  MemoryCharge charge = Arrived(sender);
  TestWaiter waiter;
  ledger_->ExpectNext(0, 0, 64 << 10, &waiter, &charge);
  for (const int ms : {10, 100, 1000, 5000}) SweepAfter(absl::Milliseconds(ms));
  EXPECT_EQ(ledger_->StandingOf(*sender), MemoryLedger::Standing::kGood);
  EXPECT_FALSE(waiter.revoked);
  EXPECT_EQ(ledger_->receive_used(), 0u);
  // Nor is it expected to bring anything, if others of it are distrusted.
  ledger_->Distrust(*sender);
  MemoryCharge large;
  ASSERT_EQ(Receive(At("a"), 40 * kMiB, &large, &unused_), Outcome::kGranted);
  large.Reset();
  sender->received = 40 << 10;
  SweepAfter(absl::Milliseconds(5010));
  EXPECT_NEAR(static_cast<double>(ledger_->receive_used()), 40 << 10, 1024);
  sender->received = 3 * kMiB;
  SweepAfter(absl::Milliseconds(5020));
  EXPECT_FALSE(waiter.revoked);
  SweepAfter(absl::Milliseconds(5600));
  EXPECT_TRUE(waiter.revoked);
  EXPECT_EQ(waiter.revocation, Revocation::kTooLong);
}

TEST_F(LedgerTest, OutlawsAreBelievedLess) {
  Make({40 * kMiB});
  const auto guessed = [&](const std::string& host) {
    const auto sender = At(host);
    sender->received = 8 * kMiB;
    ledger_->Explain(*sender, 8 * kMiB);
    return 8 * kMiB - ledger_->Unexplained(*sender);
  };
  ledger_->Outlaw(*At("outlaw"));
  EXPECT_GT(guessed("other"), 10 * guessed("outlaw"));
  EXPECT_GT(guessed("outlaw"), 64u << 10);
}

}  // namespace
}  // namespace quantd
