// A TCP client for tests that can send arbitrary bytes.
#ifndef QUANTD_TESTS_SERVER_TEST_PEER_H_
#define QUANTD_TESTS_SERVER_TEST_PEER_H_

#include <gtest/gtest.h>
#include <poll.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "tests/testing/loopback.h"

namespace quantd {

// A connection to "127.0.0.1:PORT", closed on destruction. Each operation waits
// at most a minute.
class TestPeer {
 public:
  explicit TestPeer(const std::string& address) : fd_(DialLoopback(address)) {
    EXPECT_GE(fd_, 0);
    const timeval patience = {60, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  TestPeer(TestPeer&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~TestPeer() {
    if (fd_ >= 0) close(fd_);
  }

  int fd() const { return fd_; }
  // Returns gRPC's name for this peer.
  std::string name() const {
    return "ipv4:127.0.0.1:" + std::to_string(ntohs(PortOf(fd_, getsockname)));
  }
  // Returns whether the server ends the connection within that time.
  bool IsEnded(int milliseconds) {
    pollfd polled = {fd_, POLLRDHUP, 0};
    return poll(&polled, 1, milliseconds) == 1;
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
  TestPeer client(address);
  EXPECT_TRUE(client.Send(request));
  return client.ReadAll();
}

inline std::string Get(const std::string& address, const std::string& path) {
  return Exchange(address,
                  "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

}  // namespace quantd

#endif  // QUANTD_TESTS_SERVER_TEST_PEER_H_
