// Whose turn it is by identity and priority, and who is refused for his
// deadline.
#include "server/gate/forecast.h"
#include "tests/server/ledger_fixture.h"

namespace quantd {
namespace {

class TurnsTest : public LedgerTest {
 protected:
  static std::shared_ptr<const Caller> Named(const std::string& identity) {
    return std::make_shared<const Caller>(Caller{.identity = identity});
  }
  MemoryLedger::ReceiveAsk Ask(const std::string& host,
                               Priority priority = Priority::kNormal,
                               std::shared_ptr<const Caller> caller = nullptr,
                               size_t need = 1,
                               absl::Time deadline = absl::InfiniteFuture()) {
    return {At(host), need, need, deadline, std::move(caller), priority};
  }
  MemoryCharge ArrivedOf(const MemoryLedger::ReceiveAsk& ask) {
    MemoryCharge charge;
    EXPECT_EQ(ledger_->AdmitReceive(ask, &unused_, &charge), Outcome::kGranted);
    charge.Arrived(ask.need, ask.need);
    return charge;
  }
  // 1 MiB each 10 ms, until that is known: 100 MiB a second.
  void Learn() {
    const absl::Time begin = absl::Now();
    for (int i = 0; i < 30; ++i) {
      MemoryCharge charge =
          ArrivedOf(Ask("past", Priority::kNormal, nullptr,
                        kMiB - static_cast<size_t>(Forecast::kOfCall)));
      charge.Begins(charge.receive());
      absl::SleepFor(absl::Milliseconds(10));
      charge.Served();
    }
    per_mib_ = (absl::Now() - begin) / 30;
  }
  absl::Duration per_mib_;  // as it turned out
};

TEST_F(TurnsTest, PrioritiesGoInOrder) {
  Make({1000});
  MemoryCharge first = Arrived(At("a"));
  ASSERT_EQ(Pay(900, &first, &unused_), Outcome::kGranted);
  TestWaiter low, normal, high;
  MemoryCharge of_low = ArrivedOf(Ask("b", Priority::kLow));
  MemoryCharge of_normal = ArrivedOf(Ask("c", Priority::kNormal));
  MemoryCharge of_high = ArrivedOf(Ask("d", Priority::kHigh));
  ASSERT_EQ(Pay(600, &of_low, &low), Outcome::kWaiting);
  ASSERT_EQ(Pay(600, &of_normal, &normal), Outcome::kWaiting);
  ASSERT_EQ(Pay(600, &of_high, &high), Outcome::kWaiting);
  first.Reset();
  ASSERT_TRUE(high.Told());
  EXPECT_FALSE(normal.told.HasBeenNotified());
  high.charge.Reset();
  ASSERT_TRUE(normal.Told());
  EXPECT_FALSE(low.told.HasBeenNotified());
  normal.charge.Reset();
  EXPECT_TRUE(low.Told());
}

TEST_F(TurnsTest, LowPriorityIsNotStarved) {
  Make({1000});
  MemoryCharge first = Arrived(At("a"));
  ASSERT_EQ(Pay(900, &first, &unused_), Outcome::kGranted);
  TestWaiter low, high;
  MemoryCharge of_low = ArrivedOf(Ask("b", Priority::kLow));
  ASSERT_EQ(Pay(600, &of_low, &low), Outcome::kWaiting);
  absl::SleepFor(absl::Milliseconds(4100));
  MemoryCharge of_high = ArrivedOf(Ask("c", Priority::kHigh));
  ASSERT_EQ(Pay(600, &of_high, &high), Outcome::kWaiting);
  first.Reset();
  ASSERT_TRUE(low.Told());
  EXPECT_FALSE(high.told.HasBeenNotified());
  low.charge.Reset();
  EXPECT_TRUE(high.Told());
}

TEST_F(TurnsTest, AnIdentityHasOneShareWhereverItCallsFrom) {
  Make({1000});
  const auto busy = Named("token:busy");
  // From two hosts, through a proxy even.
  MemoryCharge first = ArrivedOf(Ask("a", Priority::kNormal, busy));
  MemoryCharge again = ArrivedOf(Ask("proxy", Priority::kNormal, busy));
  MemoryCharge other =
      ArrivedOf(Ask("proxy", Priority::kNormal, Named("token:other")));
  ASSERT_EQ(Pay(900, &first, &unused_), Outcome::kGranted);
  TestWaiter of_busy, of_other;
  ASSERT_EQ(Pay(500, &again, &of_busy), Outcome::kWaiting);
  ASSERT_EQ(Pay(600, &other, &of_other), Outcome::kWaiting);
  first.ShrinkPayload(300);
  ASSERT_TRUE(of_other.Told());
  EXPECT_FALSE(of_busy.told.HasBeenNotified());
  of_other.charge.Reset();
  EXPECT_TRUE(of_busy.Told());
}

TEST_F(TurnsTest, WhoCannotBeInTimeIsRefusedAtOnce) {
  Make({size_t{64} << 20}, 8);
  const auto in = [&](absl::Duration time, Priority p = Priority::kNormal) {
    return Ask("late", p, nullptr, 2 * kMiB, absl::Now() + time);
  };
  // Nothing is known of the server: it tries.
  MemoryCharge charge;
  EXPECT_EQ(ledger_->AdmitReceive(in(absl::Milliseconds(1)), &unused_, &charge),
            Outcome::kGranted);
  charge.Reset();
  Learn();
  // Nothing is to be done: it tries, too.
  EXPECT_EQ(ledger_->AdmitReceive(in(absl::Milliseconds(1)), &unused_, &charge),
            Outcome::kGranted);
  charge.Reset();
  // 20 MiB are, of which each takes 10 ms or a little more.
  MemoryCharge ahead =
      ArrivedOf(Ask("ahead", Priority::kNormal, nullptr, 20 * kMiB));
  ahead.Begins(20 * kMiB);
  const MemoryLedger::ReceiveAsk late = in(absl::Milliseconds(50));
  EXPECT_EQ(ledger_->AdmitReceive(late, &unused_, &charge), Outcome::kTooLate);
  const MemoryLedger::Turn turn = ledger_->NextTurn(late);
  EXPECT_GE(turn.delay, absl::Milliseconds(100));
  EXPECT_LE(turn.delay, absl::Seconds(2));
  EXPECT_NE(turn.ticket, 0u);
  // The next one's turn comes after his.
  EXPECT_GT(ledger_->NextTurn(late).delay, turn.delay);
  // Who has time waits, and so does what is small.
  EXPECT_EQ(ledger_->AdmitReceive(in(absl::Minutes(1)), &unused_, &charge),
            Outcome::kGranted);
  charge.Reset();
  EXPECT_EQ(ledger_->AdmitReceive(Ask("small", Priority::kNormal, nullptr, 1000,
                                      absl::Now() + absl::Milliseconds(1)),
                                  &unused_, &charge),
            Outcome::kGranted);
  charge.Reset();
  // The work is over: he may come.
  ahead.Reset();
  EXPECT_EQ(
      ledger_->AdmitReceive(in(absl::Milliseconds(50)), &unused_, &charge),
      Outcome::kGranted);
}

TEST_F(TurnsTest, WhoComesAtHisTimeGoesBeforeOthers) {
  Make({size_t{64} << 20}, 8);
  Learn();
  // Time enough for it and a little more.
  const auto four = [&] {
    return Ask("host", Priority::kNormal, nullptr, 4 * kMiB,
               absl::Now() + 7.2 * per_mib_);
  };
  MemoryCharge ahead = ArrivedOf(Ask("ahead"));
  ahead.Begins(20 * kMiB);
  MemoryCharge charge;
  ASSERT_EQ(ledger_->AdmitReceive(four(), &unused_, &charge),
            Outcome::kTooLate);
  const MemoryLedger::Turn turn = ledger_->NextTurn(four());
  absl::SleepFor(turn.delay);
  // A little is left when his time comes.
  ahead.Reset();
  ahead = ArrivedOf(Ask("ahead"));
  ahead.Begins(kMiB / 2);
  EXPECT_EQ(ledger_->AdmitReceive(four(), &unused_, &charge),
            Outcome::kTooLate);
  MemoryLedger::ReceiveAsk again = four();
  again.ticket = turn.ticket;
  EXPECT_EQ(ledger_->AdmitReceive(again, &unused_, &charge), Outcome::kGranted);
  charge.Reset();
  // A ticket is good once.
  again.deadline = four().deadline;
  EXPECT_EQ(ledger_->AdmitReceive(again, &unused_, &charge), Outcome::kTooLate);
}

class LateTest : public TurnsTest {
 protected:
  MemoryLedger::Outcome Try(absl::Duration time, MemoryCharge* charge) {
    return ledger_->AdmitReceive(
        Ask("host", Priority::kNormal, nullptr, kMiB, absl::Now() + time),
        &unused_, charge);
  }
  // The least time that lets a call in.
  absl::Duration Least() {
    absl::Duration low = absl::ZeroDuration();
    absl::Duration high = 200 * per_mib_;
    while (high - low > high / 200) {
      const absl::Duration middle = (low + high) / 2;
      MemoryCharge charge;
      (Try(middle, &charge) == Outcome::kGranted ? high : low) = middle;
    }
    return high;
  }
  // The least time, in parts of what it was, after ten calls that had `times`
  // of it and ended after 1.25 of it.
  double LeastAfter(double times) {
    Make({size_t{64} << 20}, 100);
    Learn();
    MemoryCharge ahead = ArrivedOf(Ask("ahead"));
    ahead.Begins(20 * kMiB);
    // Half of it counts as left after that, whatever happens.
    const absl::Duration half = 12 * per_mib_;
    absl::SleepFor(half);
    const absl::Duration before = Least();
    std::vector<MemoryCharge> calls(10);
    for (MemoryCharge& each : calls) {
      EXPECT_EQ(Try(times * before, &each), Outcome::kGranted);
      each.Arrived(kMiB, kMiB);
      each.Begins(1);
    }
    absl::SleepFor(1.25 * before);
    calls.clear();
    absl::SleepFor(half);
    return absl::FDivDuration(Least(), before);
  }
};

// (What is done a second changes in both by as much.)
TEST_F(LateTest, WhoIsLateMakesForecastsCareful) {
  EXPECT_GT(LeastAfter(1.2) / LeastAfter(1.9), 1.03);
}

// Work of so little time to spare that what stalls makes it late.
TEST_F(LateTest, WhoWouldEndTooLateDoesNotBegin) {
  Make({size_t{64} << 20}, 100);
  Learn();
  MemoryCharge idle;
  ASSERT_EQ(Try(per_mib_ / 2, &idle), Outcome::kGranted);
  MemoryCharge ahead = ArrivedOf(Ask("ahead"));
  ahead.Begins(4 * kMiB);
  const absl::Duration least = Least();
  MemoryCharge short_of_time;
  MemoryCharge ample;
  ASSERT_EQ(Try(1.2 * least, &short_of_time), Outcome::kGranted);
  ASSERT_EQ(Try(20 * least, &ample), Outcome::kGranted);
  for (MemoryCharge* each : {&idle, &short_of_time, &ample}) {
    each->Arrived(kMiB, kMiB);
    each->Begins(kMiB);
  }
  EXPECT_FALSE(short_of_time.IsTooLate());
  absl::SleepFor(1.2 * least);
  EXPECT_TRUE(short_of_time.IsTooLate());
  // Whoever came to a server with nothing to do shows how slow it is; and who
  // has time, has it.
  EXPECT_FALSE(idle.IsTooLate());
  EXPECT_FALSE(ample.IsTooLate());
}

// Proven, and its messages do not come: they are before nobody for long.
TEST_F(TurnsTest, WhatDoesNotComeIsForeseenForAMomentOnly) {
  Make({size_t{64} << 20}, 100);
  Learn();
  const auto liar = At("liar");
  ledger_->Prove(*liar);
  std::vector<MemoryCharge> charges(3);
  for (MemoryCharge& charge : charges) {
    ASSERT_EQ(Receive(liar, 10 * kMiB, &charge, &unused_), Outcome::kGranted);
  }
  const auto honest = [&] {
    return Ask("honest", Priority::kNormal, nullptr, kMiB,
               absl::Now() + absl::Milliseconds(100));
  };
  MemoryCharge charge;
  EXPECT_EQ(ledger_->AdmitReceive(honest(), &unused_, &charge),
            Outcome::kTooLate);
  SweepAfter(absl::Milliseconds(60));
  EXPECT_EQ(ledger_->AdmitReceive(honest(), &unused_, &charge),
            Outcome::kGranted);
  charge.Reset();
  // He is not believed again soon.
  charges.clear();
  MemoryCharge more;
  ASSERT_EQ(Receive(liar, 40 * kMiB, &more, &unused_), Outcome::kGranted);
  EXPECT_EQ(ledger_->AdmitReceive(honest(), &unused_, &charge),
            Outcome::kGranted);
}

TEST_F(TurnsTest, WhatIsOnlyDeclaredTurnsNobodyAway) {
  Make({size_t{64} << 20}, 100);
  Learn();
  MemoryCharge ahead =
      ArrivedOf(Ask("ahead", Priority::kNormal, nullptr, kMiB));
  ahead.Begins(kMiB);
  std::vector<std::unique_ptr<TestWaiter>> liars;
  std::vector<MemoryCharge> charges(64);
  for (MemoryCharge& charge : charges) {
    liars.push_back(std::make_unique<TestWaiter>());
    ledger_->AdmitReceive(Ask("liar", Priority::kNormal, nullptr, 20 * kMiB),
                          liars.back().get(), &charge);
  }
  TestWaiter honest;
  MemoryCharge charge;
  EXPECT_NE(
      ledger_->AdmitReceive(Ask("honest", Priority::kNormal, nullptr, kMiB,
                                absl::Now() + absl::Milliseconds(500)),
                            &honest, &charge),
      Outcome::kTooLate);
  ledger_->Forget(&honest);
  for (const auto& liar : liars) ledger_->Forget(liar.get());
}

TEST(ForecastTest, LeavesATimeInWhichOneInFiftyIsLate) {
  Forecast forecast;
  const double first = forecast.part();
  for (int i = 1; i <= 5000; ++i) forecast.Learn(i % 50 == 0);
  EXPECT_NEAR(forecast.part(), first, 1e-3);
  for (int i = 1; i <= 1000; ++i) forecast.Learn(i % 100 == 0);
  EXPECT_GT(forecast.part(), first);
  for (int i = 1; i <= 1000; ++i) forecast.Learn(false);
  EXPECT_EQ(forecast.part(), Forecast::kPunctual);
  for (int i = 1; i <= 100; ++i) forecast.Learn(true);
  EXPECT_EQ(forecast.part(), 0.75);
}

TEST(ForecastTest, LearnsWhatIsDoneASecond) {
  Forecast forecast;
  absl::Time now = absl::UnixEpoch();
  EXPECT_FALSE(forecast.known());
  EXPECT_EQ(forecast.TimeFor(1e9), absl::ZeroDuration());
  for (int i = 0; i < 100; ++i) {
    forecast.Begins(1e6, now);
    now += absl::Milliseconds(10);
    forecast.Ends(1e6, true, now);
    // What is idle between says nothing.
    now += absl::Seconds(1);
  }
  EXPECT_NEAR(forecast.rate(), 1e8, 1e6);
  EXPECT_EQ(forecast.backlog(), 0);
  // What has begun is done as fast, but half of it is left for sure.
  forecast.Begins(1e6, now);
  EXPECT_EQ(forecast.Left(now), 1e6);
  EXPECT_NEAR(forecast.Left(now + absl::Milliseconds(2)), 8e5, 1e4);
  EXPECT_EQ(forecast.Left(now + absl::Seconds(1)), 5e5);
  forecast.Ends(1e6, false, now);
  EXPECT_EQ(forecast.Left(now), 0);
  // What fails is no work that was done.
  for (int i = 0; i < 100; ++i) {
    forecast.Begins(1e9, now);
    now += absl::Milliseconds(1);
    forecast.Ends(1e9, false, now);
  }
  EXPECT_LE(forecast.rate(), 1.01e8);
}

}  // namespace
}  // namespace quantd
