// Hosts that dial often: who stays, and who leaves and dials again.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/net/turnstile.h"
#include "tests/server/server_fixture.h"

namespace quantd {
namespace {

class AcceptPaceTest : public ServerTest {
 protected:
  ~AcceptPaceTest() override { LeaveAll(); }

  void LeaveAll() {
    for (const int fd : sockets_) close(fd);
    sockets_.clear();
  }

  void Connect() {
    const std::string& address = server_->address();
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<uint16_t>(
        std::stoi(address.substr(address.rfind(':') + 1))));
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockets_.push_back(fd);
    ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  }
  // A server begins every connection with its SETTINGS.
  size_t Answered() const {
    size_t count = 0;
    for (const int fd : sockets_) {
      pollfd polled = {fd, POLLIN, 0};
      char byte;
      if (poll(&polled, 1, 0) == 1 && recv(fd, &byte, 1, MSG_PEEK) == 1) {
        ++count;
      }
    }
    return count;
  }

  void AwaitAnswers() const {
    const absl::Time end = absl::Now() + absl::Seconds(30);
    while (Answered() < sockets_.size() && absl::Now() < end) {
      absl::SleepFor(absl::Milliseconds(5));
    }
  }

  std::vector<int> sockets_;
};

TEST_F(AcceptPaceTest, ManyConnectionsThatStayAreServedSoon) {
  StartFake();
  constexpr int kMore = 136;
  const size_t all = Turnstile::kUsual.at_once + kMore;
  const absl::Time start = absl::Now();
  for (size_t i = 0; i < all; ++i) Connect();
  AwaitAnswers();
  EXPECT_EQ(Answered(), all);
  EXPECT_GE(absl::Now() - start, Turnstile::kUsual.each * (kMore - 1));
  // At the pace of one who churns it would have taken this.
  EXPECT_LT(absl::Now() - start, Turnstile::kChurning.each * (kMore - 1));
}

TEST_F(AcceptPaceTest, OfAHostThatDialsAndLeavesTheyComeInOneByOne) {
  StartFake();
  for (int i = 0; i < 2 * ChurnWatch::kMany; ++i) Connect();
  AwaitAnswers();
  LeaveAll();
  // The sweep sees it within 200 ms.
  absl::SleepFor(absl::Milliseconds(600));
  constexpr int kMore = 40;
  const size_t all = Turnstile::kChurning.at_once + kMore;
  const absl::Time start = absl::Now();
  for (size_t i = 0; i < all; ++i) Connect();
  AwaitAnswers();
  EXPECT_EQ(Answered(), all);
  EXPECT_GE(absl::Now() - start, Turnstile::kChurning.each * (kMore - 1));
}

}  // namespace
}  // namespace quantd
