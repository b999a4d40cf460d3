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

TEST_F(ConnectionTest, ReceivedCountsWhatIsRead) {
  ASSERT_EQ(connection_->Received(), 0u);
  PeerWrites(1000);
  ASSERT_EQ(Poll(POLLIN, kSoonMs), POLLIN);
  EXPECT_EQ(connection_->Received(), 0u);
  EXPECT_TRUE(connection_->HasUnread());
  char text[2000];
  ASSERT_EQ(recv(fd_, text, sizeof(text), 0), 1000);
  EXPECT_EQ(connection_->Received(), 1000u);
  EXPECT_FALSE(connection_->HasUnread());
}

TEST_F(ConnectionTest, OneThatIsResetHasHungUp) {
  EXPECT_FALSE(connection_->HasHungUp());
  PeerResets();
  EXPECT_NE(Poll(POLLIN, kSoonMs) & (POLLERR | POLLHUP), 0);
  EXPECT_TRUE(connection_->HasHungUp());
}

}  // namespace
}  // namespace quantd
