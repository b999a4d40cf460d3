#include "server/net/connection.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "tests/server/test_peer.h"
#include "tests/testing/loopback.h"

namespace quantd {
namespace {

constexpr int kSoonMs = 5000;

class ConnectionTest : public testing::Test {
 protected:
  ConnectionTest()
      : fd_(accept(listener_.fd(), nullptr, nullptr)),
        connection_(Connection::Of(fd_)) {}
  ~ConnectionTest() override { Close(); }

  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  bool SomethingComes() {
    pollfd polled = {fd_, POLLIN, 0};
    return poll(&polled, 1, kSoonMs) == 1;
  }

  LoopbackListener listener_{8};
  TestPeer peer_{listener_.target()};
  int fd_;
  std::shared_ptr<Connection> connection_;
};

TEST_F(ConnectionTest, HasTheNameThatGrpcGivesIt) {
  EXPECT_EQ(connection_->name(), peer_.name());
  EXPECT_EQ(connection_->host(), "ipv4:127.0.0.1");
  EXPECT_TRUE(connection_->countable());
  EXPECT_EQ(PeerName("ipv6:%5B::1%5D:4711"), "ipv6:[::1]:4711");
  EXPECT_EQ(PeerName("ipv6:%5Bfe80::1%252%5D:1"), "ipv6:[fe80::1%2]:1");
  EXPECT_EQ(PeerName("100%"), "100%");
}

TEST_F(ConnectionTest, CountsBytesThatWereRead) {
  EXPECT_EQ(connection_->Received(), 0u);
  EXPECT_FALSE(connection_->HasUnread());
  ASSERT_TRUE(peer_.Send(std::string(1000, 'x')));
  ASSERT_TRUE(SomethingComes());
  EXPECT_EQ(connection_->Received(), 0u);
  EXPECT_TRUE(connection_->HasUnread());
  char text[600];
  ASSERT_EQ(recv(fd_, text, sizeof(text), 0), 600);
  EXPECT_EQ(connection_->Received(), 600u);
  EXPECT_TRUE(connection_->HasUnread());
}

TEST_F(ConnectionTest, CountsBytesTakenByThePeerAndWaiting) {
  fcntl(fd_, F_SETFL, O_NONBLOCK);
  const std::string text(1 << 20, 'x');
  while (send(fd_, text.data(), text.size(), 0) > 0) {
  }
  const auto before = connection_->Sent();
  ASSERT_TRUE(before.has_value());
  EXPECT_GT(before->waiting, 0u);
  std::string taken(8 << 20, 0);
  ASSERT_GT(recv(peer_.fd(), taken.data(), taken.size(), 0), 0);
  for (int i = 0; i < 1000 && connection_->Sent()->taken == before->taken;
       ++i) {
    usleep(1000);
  }
  EXPECT_GT(connection_->Sent()->taken, before->taken);
}

TEST_F(ConnectionTest, ShutEndsTheConnectionOnBothSides) {
  ASSERT_TRUE(peer_.Send(std::string(1000, 'x')));
  ASSERT_TRUE(SomethingComes());
  connection_->Shut();
  EXPECT_TRUE(peer_.IsEnded(kSoonMs));
  char text[2000];
  EXPECT_EQ(recv(fd_, text, sizeof(text), 0), 0) << "unread bytes are dropped";
}

TEST_F(ConnectionTest, ClosedConnectionIgnoresAReusedDescriptor) {
  EXPECT_TRUE(connection_->Open());
  Close();
  EXPECT_FALSE(connection_->Open());
  TestPeer other(listener_.target());
  fd_ = accept(listener_.fd(), nullptr, nullptr);
  EXPECT_FALSE(connection_->Open());
  EXPECT_FALSE(connection_->Received());
  EXPECT_FALSE(connection_->Sent());
  EXPECT_FALSE(connection_->HasUnread());
  connection_->Shut();
  EXPECT_FALSE(other.IsEnded(10));
}

TEST_F(ConnectionTest, TracksIdleTime) {
  const absl::Time before = connection_->idle_since();
  connection_->CallBegins();
  connection_->CallBegins();
  EXPECT_EQ(connection_->calls(), 2);
  connection_->CallEnds();
  connection_->CallEnds();
  EXPECT_EQ(connection_->calls(), 0);
  EXPECT_GT(connection_->idle_since(), before);
}

TEST_F(ConnectionTest, UnixSocketsHaveNoMeasurements) {
  const Connection unknown;
  EXPECT_EQ(unknown.host(), "unix");
  EXPECT_EQ(unknown.name(), "unix:");
  EXPECT_FALSE(unknown.countable());
  EXPECT_FALSE(unknown.Open());
  EXPECT_FALSE(unknown.Received());
  EXPECT_FALSE(unknown.Sent());
  unknown.Shut();
}

}  // namespace
}  // namespace quantd
