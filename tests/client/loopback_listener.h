// A socket that listens on a free port of 127.0.0.1. The kernel completes
// connections, but they get no answer unless the test accepts them.
#ifndef QUANTD_TESTS_CLIENT_LOOPBACK_LISTENER_H_
#define QUANTD_TESTS_CLIENT_LOOPBACK_LISTENER_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace quantd {

class LoopbackListener {
 public:
  explicit LoopbackListener(int backlog)
      : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    bind(fd_, reinterpret_cast<sockaddr*>(&address), size);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    listen(fd_, backlog);
    target_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  ~LoopbackListener() { close(fd_); }
  LoopbackListener(const LoopbackListener&) = delete;

  int fd() const { return fd_; }
  const std::string& target() const { return target_; }

 private:
  const int fd_;
  std::string target_;
};

}  // namespace quantd

#endif  // QUANTD_TESTS_CLIENT_LOOPBACK_LISTENER_H_
