// Tests of several connections to one server when some cannot be made.
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <array>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/client/calls.h"
#include "tests/testing/loopback.h"

namespace quantd {
namespace {

// Forwards the first connection to a server; resets all others.
class OneWay {
 public:
  explicit OneWay(const std::string& target)
      : server_(target),
        listener_(16),
        stop_(eventfd(0, EFD_CLOEXEC)),
        thread_([this] { Run(); }) {}
  ~OneWay() {
    const uint64_t one = 1;
    EXPECT_EQ(write(stop_, &one, sizeof one), ssize_t{sizeof one});
    thread_.join();
    close(stop_);
  }
  const std::string& target() const { return listener_.target(); }

 private:
  void Accept() {
    const int fd = accept(listener_.fd(), nullptr, nullptr);
    if (ends_[0] >= 0) {
      const linger reset = {1, 0};
      setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
      close(fd);
      return;
    }
    ends_ = {fd, DialLoopback(server_)};
    ASSERT_GE(ends_[1], 0);
  }

  void Run() {
    std::vector<char> bytes(1 << 16);
    for (;;) {
      std::array<pollfd, 4> polled = {{{stop_, POLLIN, 0},
                                       {listener_.fd(), POLLIN, 0},
                                       {ends_[0], POLLIN, 0},
                                       {ends_[1], POLLIN, 0}}};
      poll(polled.data(), polled.size(), -1);
      if (polled[0].revents != 0) break;
      if (polled[1].revents != 0) Accept();
      for (int i = 0; i < 2; ++i) {
        if (polled[2 + i].revents == 0) continue;
        const ssize_t n = read(ends_[i], bytes.data(), bytes.size());
        if (n <= 0 || write(ends_[1 - i], bytes.data(), n) != n) {
          for (int& end : ends_) close(std::exchange(end, -1));
          break;
        }
      }
    }
    for (const int end : ends_) {
      if (end >= 0) close(end);
    }
  }

  const std::string server_;
  LoopbackListener listener_;
  const int stop_;
  std::array<int, 2> ends_ = {-1, -1};
  std::thread thread_;
};

TEST(Connections, BrokenConnectionGetsNoCallsWhileAnotherWorks) {
  FakeServer server;
  OneWay way(server.target());
  const auto client = Connect(way.target(), {.channels = 8});
  Scripted hang;
  hang.hang = true;
  server.Script({hang});
  const CancellationToken token;
  Input in({64, 1024});
  // The working connection has more bytes in flight, and still gets the calls.
  auto first =
      client->QuantizeAsync(in.desc, in.data, Nvfp4(), {.cancel = token});
  server.WaitForHanging(1);
  for (int i = 0; i < 20; ++i) {
    const auto result = client->Quantize(in.desc, in.data, Nvfp4());
    ASSERT_THAT(result, IsOk());
    EXPECT_LE(result->attempts(), 2);
  }
  token.Cancel();
  EXPECT_THAT(first.get(), StatusIs(absl::StatusCode::kCancelled));
}

}  // namespace
}  // namespace quantd
