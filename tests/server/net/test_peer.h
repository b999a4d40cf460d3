// A peer that connects over loopback.
#ifndef QUANTD_TESTS_SERVER_NET_TEST_PEER_H_
#define QUANTD_TESTS_SERVER_NET_TEST_PEER_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace quantd {

// A connected TCP socket, closed on destruction.
class TestPeer {
 public:
  // `target`: "127.0.0.1:PORT".
  explicit TestPeer(const std::string& target)
      : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(std::stoi(target.substr(target.rfind(':') + 1)));
    connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to));
  }
  ~TestPeer() { close(fd_); }
  TestPeer(const TestPeer&) = delete;

  int fd() const { return fd_; }
  bool Write(const std::string& text) {
    return send(fd_, text.data(), text.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(text.size());
  }
  // Returns whether the server ends the connection within that time.
  bool IsEnded(int milliseconds) {
    pollfd polled = {fd_, POLLRDHUP, 0};
    return poll(&polled, 1, milliseconds) == 1;
  }
  // Returns gRPC's name for this peer.
  std::string name() const {
    sockaddr_in own = {};
    socklen_t size = sizeof(own);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&own), &size);
    return "ipv4:127.0.0.1:" + std::to_string(ntohs(own.sin_port));
  }

 private:
  const int fd_;
};

}  // namespace quantd

#endif  // QUANTD_TESTS_SERVER_NET_TEST_PEER_H_
