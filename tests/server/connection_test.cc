#include "server/net/connection.h"

#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "tests/client/loopback_listener.h"

namespace quantd {
namespace {

constexpr int kSoonMs = 5000;
constexpr int kNeverMs = 50;

// A server's end of a connection and its peer's.
class ConnectionTest : public testing::Test {
 protected:
  ConnectionTest() : peer_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    socklen_t size = sizeof(address);
    getsockname(listener_.fd(), reinterpret_cast<sockaddr*>(&address), &size);
    EXPECT_EQ(connect(peer_, reinterpret_cast<sockaddr*>(&address), size), 0);
    fd_ = accept(listener_.fd(), nullptr, nullptr);
    connection_ = Connection::Of(fd_);
  }
  ~ConnectionTest() override {
    if (peer_ >= 0) close(peer_);
    close(fd_);
  }

  void PeerWrites(size_t bytes) {
    const std::string text(bytes, 'x');
    ASSERT_EQ(send(peer_, text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes));
  }
  // With a reset: there is no patience for what it has not sent.
  void PeerResets() {
    const linger at_once = {1, 0};
    setsockopt(peer_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    close(peer_);
    peer_ = -1;
  }
  // What poll says of the server's end within so long.
  short Poll(short events, int milliseconds) {
    pollfd polled = {fd_, events, 0};
    poll(&polled, 1, milliseconds);
    return polled.revents;
  }

  LoopbackListener listener_{8};
  int peer_;
  int fd_ = -1;
  std::shared_ptr<Connection> connection_;
};

TEST_F(ConnectionTest, PausedItGetsNothingThatIsWritten) {
  connection_->Pause(true);
  PeerWrites(1000);
  EXPECT_EQ(Poll(POLLIN, kNeverMs), 0);
  connection_->Pause(false);
  EXPECT_EQ(Poll(POLLIN, kSoonMs), POLLIN) << "sent again";
  char text[2000];
  EXPECT_EQ(recv(fd_, text, sizeof(text), 0), 1000);
}

TEST_F(ConnectionTest, PausedItLearnsThatThePeerIsGone) {
  connection_->Pause(true);
  PeerWrites(1000);
  ASSERT_EQ(Poll(POLLIN, kNeverMs), 0);
  PeerResets();
  EXPECT_NE(Poll(POLLIN, kSoonMs) & (POLLERR | POLLHUP), 0);
  EXPECT_TRUE(connection_->HasHungUp());
}

TEST_F(ConnectionTest, OnlyMoreResetsThanClientsHaveAreAFlood) {
  // All streams of a connection at once are none.
  for (int i = 0; i < 256; ++i) EXPECT_FALSE(connection_->CallReset()) << i;
  int more = 0;
  while (!connection_->CallReset() && more < 10000) ++more;
  // (A thousand a second may be while this runs.)
  EXPECT_LT(more, 10000);
}

TEST_F(ConnectionTest, PausedItStillSends) {
  connection_->Pause(true);
  const std::string reply(size_t{8} << 20, 'y');
  size_t sent = 0;
  size_t taken = 0;
  std::string text(reply.size(), 0);
  while (taken < reply.size()) {
    const ssize_t n =
        send(fd_, reply.data(), reply.size() - sent, MSG_DONTWAIT);
    if (n > 0) sent += static_cast<size_t>(n);
    pollfd polled = {peer_, POLLIN, 0};
    ASSERT_EQ(poll(&polled, 1, kSoonMs), 1) << taken;
    taken += static_cast<size_t>(recv(peer_, text.data(), text.size(), 0));
  }
  EXPECT_EQ(sent, taken);
}

}  // namespace
}  // namespace quantd
