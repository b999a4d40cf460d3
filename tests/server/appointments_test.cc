#include "server/gate/appointments.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace quantd {
namespace {

constexpr double kRate = 1000;

class AppointmentsTest : public testing::Test {
 protected:
  Appointments::Given Give(const std::string& share, double work = 100) {
    return appointments_.Give(share, work, kRate, now_ + absl::Milliseconds(50),
                              now_);
  }
  Appointments appointments_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
};

TEST_F(AppointmentsTest, EachHasATimeOfHisOwn) {
  absl::Time last = now_;
  for (int i = 0; i < 20; ++i) {
    const auto given = Give("a");
    EXPECT_NE(given.ticket, 0u);
    if (i > 0) {
      EXPECT_GE(given.time - last, absl::Milliseconds(100));
      EXPECT_LE(given.time - last, absl::Milliseconds(120));
    }
    last = given.time;
  }
  EXPECT_EQ(appointments_.size(), 20u);
}

TEST_F(AppointmentsTest, AreKeptOnceByWhomTheyWereGivenTo) {
  const auto given = Give("a");
  const auto early = Give("a");
  EXPECT_FALSE(appointments_.Keep("b", given.ticket, given.time));
  EXPECT_FALSE(appointments_.Keep("a", given.ticket + 1000, given.time));
  EXPECT_TRUE(appointments_.Keep("a", given.ticket, given.time));
  EXPECT_FALSE(appointments_.Keep("a", given.ticket, given.time));
  // Too early, and it is used up.
  EXPECT_FALSE(appointments_.Keep("a", early.ticket, now_));
  EXPECT_FALSE(appointments_.Keep("a", early.ticket, early.time));
  EXPECT_EQ(appointments_.size(), 0u);
}

TEST_F(AppointmentsTest, AreKeptByWhoSaysThatHeComesAgain) {
  const auto given = Give("a");
  EXPECT_FALSE(appointments_.KeepAny("a", now_));
  EXPECT_FALSE(appointments_.KeepAny("b", given.time));
  EXPECT_TRUE(appointments_.KeepAny("a", given.time));
  EXPECT_FALSE(appointments_.KeepAny("a", given.time));
}

TEST_F(AppointmentsTest, WhoIsRefusedOftenPushesNobodyElseAway) {
  for (int i = 0; i < 100; ++i) Give("often");
  EXPECT_GT(Give("often").time, now_ + absl::Seconds(9));
  EXPECT_LE(Give("other").time, now_ + absl::Milliseconds(50));
  // His line goes half as fast now.
  now_ += absl::Milliseconds(60);
  const auto first = Give("other");
  EXPECT_GE(Give("other").time - first.time, absl::Milliseconds(200));
}

TEST_F(AppointmentsTest, EndSomewhere) {
  for (size_t i = 0; i < 2 * Appointments::kMostOfShare; ++i) {
    const auto given = Give("a", 0.1);
    ASSERT_LE(given.time, now_ + Appointments::kFarthest);
  }
  EXPECT_EQ(appointments_.size(), Appointments::kMostOfShare);
  EXPECT_EQ(Give("a", 1).ticket, 0u);
  EXPECT_NE(Give("b", 1).ticket, 0u);
  for (int i = 0; i < 10; ++i) Give("c", 10 * kRate);
  EXPECT_EQ(Give("c").ticket, 0u);
  for (int i = 0; appointments_.size() < Appointments::kMost; ++i) {
    ASSERT_LT(i, 100000);
    Give("host " + std::to_string(i), 1);
  }
  EXPECT_EQ(Give("last").ticket, 0u);
  // All of them pass.
  now_ += Appointments::kFarthest + absl::Seconds(1);
  EXPECT_EQ(appointments_.Expected(absl::Seconds(1), now_), 0);
  EXPECT_EQ(appointments_.size(), 0u);
}

TEST_F(AppointmentsTest, WhoKeepsNoneIsNotWaitedFor) {
  Give("a");
  EXPECT_EQ(appointments_.Expected(absl::Milliseconds(20), now_), 0);
  EXPECT_NEAR(appointments_.Expected(absl::Milliseconds(60), now_), 100, 1e-6);
  for (int i = 0; i < 100; ++i) {
    Give("a");
    now_ += absl::Seconds(1);
  }
  const auto given = Give("a");
  EXPECT_LT(appointments_.Expected(given.time - now_, now_), 5);
  // Until he keeps them again.
  for (int i = 0; i < 100; ++i) {
    const auto kept = Give("a");
    now_ = kept.time;
    EXPECT_TRUE(appointments_.Keep("a", kept.ticket, now_));
  }
  const auto next = Give("a");
  EXPECT_GT(appointments_.Expected(next.time - now_, now_), 90);
}

}  // namespace
}  // namespace quantd
