// The client's side of connections to a listener.
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

// A socket that is closed with a reset on destruction. Otherwise thousands of
// sockets per second would leave ports in TIME_WAIT.
class Socket {
 public:
  Socket(int fd, const sockaddr* address, socklen_t size) : fd_(fd) {
    Check(fd_ >= 0, "no socket");
    if (connect(fd_, address, size) == 0) return;
    // libFuzzer's timer may interrupt connect(), which then completes in the
    // background.
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

  // Sends the bytes. If the peer has closed the connection, the remaining ones
  // are lost.
  void Send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }
  // Receives until the peer ends the connection, at most `most` bytes. A
  // listener that sends no byte for ten seconds hangs.
  std::string Receive(size_t most) const {
    std::string received;
    char buffer[4096];
    while (received.size() < most) {
      Check(Wait(POLLIN), "no reply and no end of the connection");
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
