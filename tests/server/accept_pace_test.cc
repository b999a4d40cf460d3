// A host that dials and dials: its connections wait, and all get their turn.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "server/turnstile.h"
#include "tests/server/server_fixture.h"

namespace quantd {
namespace {

class AcceptPaceTest : public ServerTest {
 protected:
  ~AcceptPaceTest() override {
    for (const int fd : sockets_) close(fd);
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

  std::vector<int> sockets_;
};

TEST_F(AcceptPaceTest, ManyConnectionsOfAHostComeInOneByOne) {
  StartFake();
  constexpr int kMore = 40;
  constexpr size_t kAll = Turnstile::kUsual.at_once + kMore;
  const absl::Time start = absl::Now();
  for (size_t i = 0; i < kAll; ++i) Connect();
  while (Answered() < kAll && absl::Now() - start < absl::Seconds(30)) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  EXPECT_EQ(Answered(), kAll);
  EXPECT_GE(absl::Now() - start, Turnstile::kUsual.each * (kMore - 1));
}

}  // namespace
}  // namespace quantd
