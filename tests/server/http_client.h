// A TCP client for tests that can send arbitrary bytes.
#ifndef QUANTD_TESTS_SERVER_HTTP_CLIENT_H_
#define QUANTD_TESTS_SERVER_HTTP_CLIENT_H_

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace quantd {

// A connection to "127.0.0.1:PORT", closed on destruction. Each operation waits
// at most a minute.
class HttpClient {
 public:
  explicit HttpClient(const std::string& address)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience = {60, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<uint16_t>(
        std::atoi(address.substr(address.rfind(':') + 1).c_str())));
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  }
  HttpClient(HttpClient&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~HttpClient() {
    if (fd_ >= 0) close(fd_);
  }

  bool Send(std::string_view bytes) {
    return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  // Returns whether there are bytes to read, or the peer has closed the
  // connection.
  bool Readable() {
    pollfd polled = {fd_, POLLIN, 0};
    return poll(&polled, 1, 60'000) == 1;
  }
  // Returns whether a server in this process has closed its end, even if bytes
  // are unread.
  bool Dropped() const {
    const uint16_t port = PortOf(fd_, getsockname);
    for (const auto& entry :
         std::filesystem::directory_iterator("/proc/self/fd")) {
      const int fd = std::atoi(entry.path().filename().c_str());
      if (PortOf(fd, getpeername) == port) return false;
    }
    return true;
  }
  // Returns all bytes until the peer closes or resets the connection.
  std::string ReadAll() {
    std::string all;
    char buffer[4096];
    ssize_t n = 0;
    while ((n = recv(fd_, buffer, sizeof(buffer), 0)) > 0) {
      all.append(buffer, static_cast<size_t>(n));
    }
    return all;
  }

 private:
  using NameOf = int(int, sockaddr*, socklen_t*);
  // Returns the port of a socket's address, or 0 if it has no port.
  static uint16_t PortOf(int fd, NameOf* name_of) {
    sockaddr_in name = {};
    socklen_t size = sizeof(name);
    const int error = name_of(fd, reinterpret_cast<sockaddr*>(&name), &size);
    return error != 0 || name.sin_family != AF_INET ? 0 : name.sin_port;
  }

  int fd_;
};

inline std::string Exchange(const std::string& address,
                            std::string_view request) {
  HttpClient client(address);
  EXPECT_TRUE(client.Send(request));
  return client.ReadAll();
}

inline std::string Get(const std::string& address, const std::string& path) {
  return Exchange(address,
                  "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

}  // namespace quantd

#endif  // QUANTD_TESTS_SERVER_HTTP_CLIENT_H_
