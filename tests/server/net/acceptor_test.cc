#include "server/net/acceptor.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "tests/server/test_peer.h"

namespace quantd {
namespace {

constexpr int kSoonMs = 5000;

// Descriptors handed to gRPC; closed on destruction.
class Given {
 public:
  ~Given() {
    for (const int fd : fds_) close(fd);
  }
  void Add(int fd) {
    absl::MutexLock lock(&mutex_);
    fds_.push_back(fd);
  }
  // Waits until there are `count` descriptors, and returns them.
  std::vector<int> Await(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&] { return fds_.size() >= count; };
    mutex_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(20));
    EXPECT_GE(fds_.size(), count);
    return fds_;
  }
  void Close(size_t index) {
    absl::MutexLock lock(&mutex_);
    close(fds_[index]);
    fds_.erase(fds_.begin() + static_cast<int>(index));
  }

 private:
  absl::Mutex mutex_;
  std::vector<int> fds_;
};

class FakeGrpc : public Acceptor::GrpcAcceptor {
 public:
  explicit FakeGrpc(Given* given) : given_(given) {}
  void HandleNewConnection(NewConnectionParameters* parameters) override {
    given_->Add(parameters->fd);
  }

 private:
  Given* const given_;
};

class AcceptorTest : public testing::Test {
 protected:
  void Start(const Acceptor::Limits& limits) {
    auto acceptor = Acceptor::Listen("127.0.0.1:0", limits);
    ASSERT_TRUE(acceptor.ok()) << acceptor.status();
    acceptor_ = *std::move(acceptor);
    acceptor_->Start(std::make_unique<FakeGrpc>(&given_));
  }
  std::unique_ptr<TestPeer> Dial() {
    return std::make_unique<TestPeer>(acceptor_->address());
  }

  Given given_;
  std::unique_ptr<Acceptor> acceptor_;
};

TEST_F(AcceptorTest, FindsTheConnectionOfACall) {
  Start({});
  const auto a = Dial(), b = Dial();
  given_.Await(2);
  EXPECT_EQ(acceptor_->size(), 2u);
  EXPECT_EQ(acceptor_->Find(a->name())->name(), a->name());
  EXPECT_NE(acceptor_->Find(a->name()), acceptor_->Find(b->name()));
  EXPECT_FALSE(acceptor_->Find("unix:")->countable());
  EXPECT_FALSE(acceptor_->Find("ipv4:127.0.0.1:1")->countable());
}

TEST_F(AcceptorTest, AtTheLimitClosesIdleConnectionsOnly) {
  Start({.connections = 2, .idle = absl::Milliseconds(300)});
  const auto busy = Dial();
  given_.Await(1);
  acceptor_->Find(busy->name())->CallBegins();
  const auto idle = Dial();
  given_.Await(2);
  // A new connection does not count as idle, because its first call may be
  // arriving.
  const auto turned_away = Dial();
  EXPECT_TRUE(turned_away->IsEnded(kSoonMs));
  EXPECT_FALSE(idle->IsEnded(0));
  bool ended = false;
  for (int i = 0; i < 500 && !ended; ++i) {
    Dial();
    ended = idle->IsEnded(10);
  }
  EXPECT_TRUE(ended);
  EXPECT_FALSE(busy->IsEnded(0));
  EXPECT_EQ(acceptor_->size(), 2u);
}

TEST_F(AcceptorTest, ForgetsAClosedConnection) {
  Start({.connections = 1});
  const auto first = Dial();
  given_.Await(1);
  given_.Close(0);  // as gRPC does, without a notice to the acceptor
  const auto second = Dial();
  given_.Await(1);
  EXPECT_FALSE(second->IsEnded(0));
  EXPECT_EQ(acceptor_->size(), 1u);
  EXPECT_FALSE(acceptor_->Find(first->name())->countable());
}

TEST_F(AcceptorTest, DisconnectsAPeerThatDoesNotRead) {
  Start({.max_stuck = absl::Milliseconds(20)});
  const auto stuck = Dial(), quiet = Dial();
  const std::string text(1 << 20, 'x');
  const int fd = given_.Await(2)[0];
  while (send(fd, text.data(), text.size(), MSG_NOSIGNAL) > 0) {
  }
  // Checks the server's end, since the peer would have to read the sent bytes
  // first.
  pollfd polled = {fd, POLLRDHUP, 0};
  EXPECT_EQ(poll(&polled, 1, kSoonMs), 1);
  EXPECT_FALSE(quiet->IsEnded(0));
}

TEST_F(AcceptorTest, ContinuesWhenDescriptorsAreAvailableAgain) {
  Start({});
  const auto peer = Dial();
  const int last = given_.Await(1)[0];
  TestPeer waiting(acceptor_->address());
  given_.Await(2);
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  // Opens the peer's own descriptor before the limit is lowered.
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const rlimit none = {static_cast<rlim_t>(last), limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  sockaddr_in to = {};
  socklen_t size = sizeof(to);
  getpeername(waiting.fd(), reinterpret_cast<sockaddr*>(&to), &size);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), size), 0);
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_EQ(acceptor_->size(), 2u);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  given_.Await(3);
  close(fd);
}

TEST_F(AcceptorTest, EndsAllConnections) {
  Start({});
  const auto a = Dial(), b = Dial();
  given_.Await(2);
  acceptor_->Stop();
  EXPECT_EQ(acceptor_->EndAll(), 2u);
  EXPECT_TRUE(a->IsEnded(kSoonMs));
  EXPECT_TRUE(b->IsEnded(kSoonMs));
}

}  // namespace
}  // namespace quantd
