// Sockets on 127.0.0.1.
#ifndef QUANTD_TESTS_TESTING_LOOPBACK_H_
#define QUANTD_TESTS_TESTING_LOOPBACK_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace quantd {

// Returns the address that `target`, "127.0.0.1:PORT", names.
inline sockaddr_in LoopbackAddress(const std::string& target) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(
      static_cast<uint16_t>(std::stoi(target.substr(target.rfind(':') + 1))));
  return address;
}

// Returns a socket that is connected to `target`, or -1.
inline int DialLoopback(const std::string& target) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in to = LoopbackAddress(target);
  if (connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0) {
    return fd;
  }
  close(fd);
  return -1;
}

// A socket that listens on a free port. The kernel completes connections, but
// they get no answer unless the test accepts them.
class LoopbackListener {
 public:
  explicit LoopbackListener(int backlog)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = LoopbackAddress(":0");
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

#endif  // QUANTD_TESTS_TESTING_LOOPBACK_H_
