// The client's side of a listener's connections, which does what an input says.
#ifndef QUANTD_TESTS_FUZZ_TARGETS_LOOPBACK_H_
#define QUANTD_TESTS_FUZZ_TARGETS_LOOPBACK_H_

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "tests/fuzz/targets/target.h"

namespace quantd::fuzz {

// A socket, closed on destruction with a reset: thousands of them a second
// would leave as many ports behind in TIME_WAIT.
class Socket {
 public:
  Socket(int fd, const sockaddr* address, socklen_t size) : fd_(fd) {
    Check(fd_ >= 0, "no socket");
    if (connect(fd_, address, size) == 0) return;
    // libFuzzer's clock interrupts, and then the connection is still made.
    Check(errno == EINTR && Wait(POLLOUT),
          std::string("not connected: ") + std::strerror(errno));
  }
  ~Socket() {
    const linger reset = {1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close(fd_);
  }
  Socket(const Socket&) = delete;
  int fd() const { return fd_; }

  // The peer may have closed: then the rest is lost, which is its right.
  void Send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }
  // At most `most` bytes, or all that come until the peer ends. A listener that
  // says nothing for ten seconds hangs.
  std::string Receive(size_t most) const {
    std::string received;
    char buffer[4096];
    while (received.size() < most) {
      Check(Wait(POLLIN), "no answer, and no end of it");
      const ssize_t n = recv(
          fd_, buffer, std::min(sizeof(buffer), most - received.size()), 0);
      if (n <= 0) return received;
      received.append(buffer, static_cast<size_t>(n));
    }
    return received;
  }

 private:
  bool Wait(short events) const {
    pollfd polled = {fd_, events, 0};
    int n = 0;
    do {
      n = poll(&polled, 1, 10'000);
    } while (n < 0 && errno == EINTR);
    return n == 1;
  }

  const int fd_;
};

}  // namespace quantd::fuzz

#endif  // QUANTD_TESTS_FUZZ_TARGETS_LOOPBACK_H_
