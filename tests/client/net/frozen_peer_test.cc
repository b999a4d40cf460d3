// Tests a call to a peer that completes the HTTP/2 handshake, opens every
// window and then reads nothing. The kernel's buffers fill, and a write hangs
// in the middle of the caller's memory. The call must return at its deadline,
// once no thread reads that memory any more.
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/client/calls.h"
#include "tests/testing/loopback.h"

namespace quantd {
namespace {

using std::chrono::milliseconds;

class FrozenPeer {
 public:
  FrozenPeer() {
    thread_ = std::thread([this] {
      for (;;) {
        const int fd = accept(listener_.fd(), nullptr, nullptr);
        if (fd < 0) return;
        // A SETTINGS frame with INITIAL_WINDOW_SIZE 2^31 - 1, and a
        // WINDOW_UPDATE that raises the connection's window to nearly the same.
        constexpr char kOpen[] =
            "\0\0\6\4\0\0\0\0\0\0\4\x7F\xFF\xFF\xFF"
            "\0\0\4\x8\0\0\0\0\0\x7F\xFE\0\0";
        (void)!write(fd, kOpen, sizeof kOpen - 1);
        connections_.push_back(fd);
      }
    });
  }
  ~FrozenPeer() {
    shutdown(listener_.fd(), SHUT_RDWR);
    thread_.join();
    for (int fd : connections_) close(fd);
  }
  const std::string& target() const { return listener_.target(); }

 private:
  LoopbackListener listener_{4};
  std::thread thread_;
  std::vector<int> connections_;
};

TEST(FrozenPeer, CallReturnsSoonAfterItsDeadline) {
  FrozenPeer peer;
  const auto client = Connect(
      peer.target(),
      {.retry = {.max_attempts = 1}, .dead_peer_timeout = milliseconds(1000)});
  Input in({4096, 8192});  // 64 MiB, more than any socket buffer
  const auto start = std::chrono::steady_clock::now();
  const auto result = client->Quantize(in.desc, in.data, Nvfp4(),
                                       {.deadline = milliseconds(500)});
  const double seconds = Seconds(start);
  EXPECT_FALSE(result.ok());
  EXPECT_GE(seconds, 0.45);
  // The limit covers the deadline, one second of dead_peer_timeout, gRPC's ten
  // seconds, and a busy machine.
  EXPECT_LT(seconds, 30);
}

}  // namespace
}  // namespace quantd
