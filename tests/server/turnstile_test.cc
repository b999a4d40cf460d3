#include "server/net/turnstile.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace quantd {
namespace {

const absl::Time kOpened = absl::UnixEpoch() + absl::Hours(1);
constexpr Turnstile::Pace kSlow = Turnstile::kOutlawed;
constexpr Turnstile::Pace kQuick = Turnstile::kDistrusted;

class TurnstileTest : public testing::Test {
 protected:
  ~TurnstileTest() override {
    for (const int fd : peers_) close(fd);
  }

  // A connection; who is at its other end hangs up with HangUp(its number).
  Turnstile::Guest Connect() {
    int both[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, both), 0);
    peers_.push_back(both[1]);
    return {both[0], -1};
  }
  void HangUp(size_t number) { shutdown(peers_[number], SHUT_RDWR); }
  // Those whose turn it is, and closes them.
  size_t Turns(absl::Time now) {
    const auto guests = turnstile_.Next(now);
    for (const Turnstile::Guest& guest : guests) close(guest.fd);
    return guests.size();
  }
  // Whether the server's end of a connection is closed.
  bool IsClosed(size_t number) const {
    char byte;
    return recv(peers_[number], &byte, 1, MSG_DONTWAIT) == 0;
  }

  Turnstile turnstile_;
  std::vector<int> peers_;
};

TEST_F(TurnstileTest, TheFirstAtOnceThenOneByOne) {
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(turnstile_.Enter("a", kSlow, Connect()));
  EXPECT_EQ(Turns(kOpened), 1u);
  EXPECT_EQ(Turns(kOpened), 0u);
  EXPECT_EQ(Turns(kOpened + kSlow.each / 2), 0u);
  EXPECT_EQ(Turns(kOpened + kSlow.each), 1u);
  // Not two, however late somebody looks.
  ASSERT_TRUE(turnstile_.Enter("a", kSlow, Connect()));
  EXPECT_EQ(Turns(kOpened + absl::Seconds(10)), 1u);
  EXPECT_EQ(Turns(kOpened + absl::Seconds(10)), 0u);
}

TEST_F(TurnstileTest, SomeAtOnceThenOneByOne) {
  for (int i = 0; i < kQuick.at_once + 3; ++i) {
    ASSERT_TRUE(turnstile_.Enter("a", kQuick, Connect()));
  }
  const auto at_once = static_cast<size_t>(kQuick.at_once);
  EXPECT_EQ(Turns(kOpened), at_once);
  EXPECT_EQ(Turns(kOpened), 0u);
  EXPECT_EQ(Turns(kOpened + kQuick.each), 1u);
  EXPECT_EQ(Turns(kOpened + 3 * kQuick.each), 2u);
  EXPECT_FALSE(turnstile_.empty());
  // The turns come back as slowly as they were given.
  EXPECT_EQ(Turns(kOpened + (kQuick.at_once + 3) * kQuick.each), 0u);
  EXPECT_TRUE(turnstile_.empty());
}

TEST_F(TurnstileTest, WhoIsOutlawedMeanwhileWaitsAsOutlawsDo) {
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(turnstile_.Enter("a", kQuick, Connect()));
  }
  EXPECT_EQ(Turns(kOpened), static_cast<size_t>(kQuick.at_once));
  ASSERT_TRUE(turnstile_.Enter("a", kSlow, Connect()));
  const absl::Time over = kOpened + kQuick.at_once * kQuick.each;
  EXPECT_EQ(Turns(over - kQuick.each), 0u);
  EXPECT_EQ(Turns(over), 1u);
  EXPECT_EQ(Turns(over + kQuick.each), 0u);
}

TEST_F(TurnstileTest, AClientThatDoesNotWaitKeepsItsPlaceIfOnlyDistrusted) {
  ASSERT_TRUE(turnstile_.Enter("a", kQuick, Connect()));
  const std::string window(64 << 10, 'x');
  ASSERT_GT(send(peers_[0], window.data(), window.size(), 0), 20 << 10);
  EXPECT_EQ(Turns(kOpened), 1u);
}

TEST_F(TurnstileTest, HostsDoNotWaitForEachOther) {
  ASSERT_TRUE(turnstile_.Enter("a", kSlow, Connect()));
  ASSERT_TRUE(turnstile_.Enter("b", kSlow, Connect()));
  EXPECT_EQ(Turns(kOpened), 2u);
}

TEST_F(TurnstileTest, WhoHangsUpTakesNoTurn) {
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(turnstile_.Enter("a", kSlow, Connect()));
  HangUp(0);
  HangUp(1);
  const auto guests = turnstile_.Next(kOpened);
  ASSERT_EQ(guests.size(), 1u);
  EXPECT_TRUE(IsClosed(0));
  EXPECT_TRUE(IsClosed(1));
  EXPECT_FALSE(IsClosed(2));
  close(guests[0].fd);
}

TEST_F(TurnstileTest, WhoDoesNotWaitToBeAnsweredTakesNoTurn) {
  for (int i = 0; i < 2; ++i)
    ASSERT_TRUE(turnstile_.Enter("a", kSlow, Connect()));
  const std::string much(20 << 10, 'x');
  ASSERT_EQ(send(peers_[0], much.data(), much.size(), 0),
            static_cast<ssize_t>(much.size()));
  ASSERT_EQ(send(peers_[1], much.data(), 1000, 0), 1000);
  const auto guests = turnstile_.Next(kOpened);
  ASSERT_EQ(guests.size(), 1u);
  char byte;
  EXPECT_EQ(recv(guests[0].fd, &byte, 1, MSG_DONTWAIT), 1);
  close(guests[0].fd);
}

TEST_F(TurnstileTest, TheLineHasAnEnd) {
  for (size_t i = 0; i < kSlow.most; ++i) {
    ASSERT_TRUE(turnstile_.Enter("a", kSlow, Connect()));
  }
  EXPECT_FALSE(turnstile_.Enter("a", kSlow, Connect()));
  EXPECT_TRUE(IsClosed(kSlow.most));
  // Room is made by those who have left.
  HangUp(7);
  EXPECT_TRUE(turnstile_.Enter("a", kSlow, Connect()));
  EXPECT_TRUE(IsClosed(7));
  EXPECT_TRUE(turnstile_.Enter("b", kSlow, Connect()));
}

TEST_F(TurnstileTest, ForgetsWhoIsGone) {
  EXPECT_TRUE(turnstile_.empty());
  ASSERT_TRUE(turnstile_.Enter("a", kSlow, Connect()));
  EXPECT_FALSE(turnstile_.empty());
  EXPECT_EQ(Turns(kOpened), 1u);
  // The last turn is remembered for as long as it keeps others waiting.
  EXPECT_FALSE(turnstile_.empty());
  EXPECT_EQ(Turns(kOpened + kSlow.each), 0u);
  EXPECT_TRUE(turnstile_.empty());
}

TEST_F(TurnstileTest, ClosesThoseWhoWaitWithIt) {
  {
    Turnstile turnstile;
    ASSERT_TRUE(turnstile.Enter("a", kSlow, Connect()));
  }
  EXPECT_TRUE(IsClosed(0));
}

TEST(ChurnWatchTest, AfterManyThatLeftAndUntilTheyAreForgotten) {
  ChurnWatch watch;
  const auto leave = [&](const std::string& host, int times, absl::Time now) {
    for (int i = 0; i < times; ++i) watch.Left(host, now);
  };
  leave("a", ChurnWatch::kMany, kOpened);
  EXPECT_FALSE(watch.Churns("a", kOpened));
  leave("a", 1, kOpened);
  EXPECT_TRUE(watch.Churns("a", kOpened));
  EXPECT_FALSE(watch.Churns("b", kOpened));
  EXPECT_FALSE(watch.Churns("a", kOpened + ChurnWatch::kEach));
  // However many they were.
  leave("a", 100000, kOpened);
  const absl::Time over = kOpened + ChurnWatch::kRemembered;
  EXPECT_TRUE(watch.Churns("a", kOpened + absl::Seconds(3)));
  EXPECT_FALSE(watch.Churns("a", over - ChurnWatch::kMany * ChurnWatch::kEach));
  watch.Tidy(over - absl::Seconds(1));
  leave("a", 1, over - absl::Seconds(1));
  EXPECT_FALSE(watch.Churns("a", over - absl::Seconds(1)));
  // As slowly as anybody's health is looked at, for ever.
  for (int i = 0; i < 1000; ++i) leave("c", 1, kOpened + i * ChurnWatch::kEach);
  EXPECT_FALSE(watch.Churns("c", kOpened + 1000 * ChurnWatch::kEach));
}

}  // namespace
}  // namespace quantd
