#include "server/turnstile.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace quantd {
namespace {

const absl::Time kStart = absl::UnixEpoch() + absl::Hours(1);

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
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(turnstile_.Enter("a", Connect()));
  EXPECT_EQ(Turns(kStart), 1u);
  EXPECT_EQ(Turns(kStart), 0u);
  EXPECT_EQ(Turns(kStart + Turnstile::kEach / 2), 0u);
  EXPECT_EQ(Turns(kStart + Turnstile::kEach), 1u);
  // Not two, however late somebody looks.
  ASSERT_TRUE(turnstile_.Enter("a", Connect()));
  EXPECT_EQ(Turns(kStart + absl::Seconds(10)), 1u);
  EXPECT_EQ(Turns(kStart + absl::Seconds(10)), 0u);
}

TEST_F(TurnstileTest, HostsDoNotWaitForEachOther) {
  ASSERT_TRUE(turnstile_.Enter("a", Connect()));
  ASSERT_TRUE(turnstile_.Enter("b", Connect()));
  EXPECT_EQ(Turns(kStart), 2u);
}

TEST_F(TurnstileTest, WhoHangsUpTakesNoTurn) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(turnstile_.Enter("a", Connect()));
  HangUp(0);
  HangUp(1);
  const auto guests = turnstile_.Next(kStart);
  ASSERT_EQ(guests.size(), 1u);
  EXPECT_TRUE(IsClosed(0));
  EXPECT_TRUE(IsClosed(1));
  EXPECT_FALSE(IsClosed(2));
  close(guests[0].fd);
}

TEST_F(TurnstileTest, WhoDoesNotWaitToBeAnsweredTakesNoTurn) {
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(turnstile_.Enter("a", Connect()));
  const std::string much(20 << 10, 'x');
  ASSERT_EQ(send(peers_[0], much.data(), much.size(), 0),
            static_cast<ssize_t>(much.size()));
  ASSERT_EQ(send(peers_[1], much.data(), 1000, 0), 1000);
  const auto guests = turnstile_.Next(kStart);
  ASSERT_EQ(guests.size(), 1u);
  char byte;
  EXPECT_EQ(recv(guests[0].fd, &byte, 1, MSG_DONTWAIT), 1);
  close(guests[0].fd);
}

TEST_F(TurnstileTest, TheLineHasAnEnd) {
  for (size_t i = 0; i < Turnstile::kMost; ++i) {
    ASSERT_TRUE(turnstile_.Enter("a", Connect()));
  }
  EXPECT_FALSE(turnstile_.Enter("a", Connect()));
  EXPECT_TRUE(IsClosed(Turnstile::kMost));
  // Room is made by those who have left.
  HangUp(7);
  EXPECT_TRUE(turnstile_.Enter("a", Connect()));
  EXPECT_TRUE(IsClosed(7));
  EXPECT_TRUE(turnstile_.Enter("b", Connect()));
}

TEST_F(TurnstileTest, ForgetsWhoIsGone) {
  EXPECT_TRUE(turnstile_.empty());
  ASSERT_TRUE(turnstile_.Enter("a", Connect()));
  EXPECT_FALSE(turnstile_.empty());
  EXPECT_EQ(Turns(kStart), 1u);
  // The last turn is remembered for as long as it keeps others waiting.
  EXPECT_FALSE(turnstile_.empty());
  EXPECT_EQ(Turns(kStart + Turnstile::kEach), 0u);
  EXPECT_TRUE(turnstile_.empty());
}

TEST_F(TurnstileTest, ClosesThoseWhoWaitWithIt) {
  {
    Turnstile turnstile;
    ASSERT_TRUE(turnstile.Enter("a", Connect()));
  }
  EXPECT_TRUE(IsClosed(0));
}

}  // namespace
}  // namespace quantd
