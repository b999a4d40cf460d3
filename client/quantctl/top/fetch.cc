#include "client/quantctl/top/fetch.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <string_view>

#include "absl/strings/ascii.h"
#include "fmt/format.h"
#include "proto/net/address.h"

namespace quantd::quantctl {
namespace {

using Clock = std::chrono::steady_clock;

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

absl::Status Unavailable(std::string_view why) {
  return absl::UnavailableError(absl::string_view(why.data(), why.size()));
}

absl::StatusOr<Addresses> Look(const std::string& target, int flags) {
  const auto parts = security::SplitHostPort(target);
  if (!parts.ok()) return parts.status();
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* list = nullptr;
  const int error =
      getaddrinfo(parts->host.c_str(), parts->port.c_str(), &hints, &list);
  if (error == EAI_NONAME && flags == 0 &&
      parts->port.find_first_not_of("0123456789") != std::string::npos) {
    return absl::InvalidArgumentError("the port is no number");
  }
  if (error != 0) return Unavailable(gai_strerror(error));
  return Addresses(list);
}

class Socket {
 public:
  Socket(int family, Clock::time_point until)
      : fd_(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
        until_(until) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;

  int fd() const { return fd_; }
  // False: not in time.
  bool Wait(short events) const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        until_ - Clock::now());
    pollfd polled = {fd_, events, 0};
    return left.count() > 0 &&
           poll(&polled, 1, static_cast<int>(left.count())) == 1;
  }

 private:
  const int fd_;
  const Clock::time_point until_;
};

absl::Status Connect(const Socket& socket, const addrinfo& to) {
  if (socket.fd() < 0) return Unavailable(strerror(errno));
  if (connect(socket.fd(), to.ai_addr, to.ai_addrlen) == 0) return {};
  if (errno != EINPROGRESS) return Unavailable(strerror(errno));
  if (!socket.Wait(POLLOUT)) return Unavailable("no answer in time");
  int error = 0;
  socklen_t size = sizeof(error);
  getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? absl::OkStatus() : Unavailable(strerror(error));
}

// The value of Content-Length, or as much as anything.
size_t LengthOf(std::string_view head) {
  const std::string lower =
      absl::AsciiStrToLower(absl::string_view(head.data(), head.size()));
  constexpr std::string_view kName = "\r\ncontent-length:";
  const size_t at = lower.find(kName);
  size_t length = SIZE_MAX;
  if (at == std::string::npos) return length;
  const size_t from = lower.find_first_not_of(' ', at + kName.size());
  if (from == std::string::npos) return length;
  std::from_chars(lower.data() + from, lower.data() + lower.size(), length);
  return length;
}

absl::StatusOr<std::string> BodyOf(std::string reply) {
  const size_t end = reply.find("\r\n\r\n");
  if (end == std::string::npos || !reply.starts_with("HTTP/1.")) {
    return Unavailable("no HTTP answer");
  }
  const std::string_view head = std::string_view(reply).substr(0, end + 2);
  const size_t space = head.find(' ');
  if (head.substr(std::min(space, head.size()), 5) != " 200 ") {
    return Unavailable("HTTP status is not 200");
  }
  const size_t length = LengthOf(head);
  reply.erase(0, end + 4);
  if (length != SIZE_MAX && reply.size() < length) {
    return Unavailable("the page was cut short");
  }
  return reply;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> Resolve(const std::string& target) {
  const auto found = Look(target, 0);
  if (!found.ok()) return found.status();
  std::vector<std::string> addresses;
  for (const addrinfo* a = found->get(); a != nullptr; a = a->ai_next) {
    char host[NI_MAXHOST];
    char port[NI_MAXSERV];
    if (getnameinfo(a->ai_addr, a->ai_addrlen, host, sizeof(host), port,
                    sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
      continue;
    }
    const bool v6 = a->ai_family == AF_INET6;
    addresses.push_back(v6 ? fmt::format("[{}]:{}", host, port)
                           : fmt::format("{}:{}", host, port));
  }
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()),
                  addresses.end());
  return addresses;
}

absl::StatusOr<std::string> FetchPage(const std::string& address,
                                      std::chrono::milliseconds patience) {
  const auto to = Look(address, AI_NUMERICHOST);
  if (!to.ok()) return to.status();
  const Socket socket((*to)->ai_family, Clock::now() + patience);
  if (auto s = Connect(socket, **to); !s.ok()) return s;
  // 1.0: in one piece, and then the end.
  const std::string request =
      fmt::format("GET /metrics HTTP/1.0\r\nHost: {}\r\n\r\n", address);
  if (send(socket.fd(), request.data(), request.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(request.size())) {
    return Unavailable("takes no request");
  }
  std::string reply;
  while (reply.size() <= kLongestPage) {
    if (!socket.Wait(POLLIN)) return Unavailable("no whole page in time");
    const size_t before = reply.size();
    reply.resize(before + (64 << 10));
    const ssize_t n = recv(socket.fd(), reply.data() + before, 64 << 10, 0);
    const int error = errno;
    reply.resize(before + std::max<ssize_t>(n, 0));
    if (n == 0) return BodyOf(std::move(reply));
    if (n < 0 && error != EAGAIN && error != EINTR) {
      return Unavailable(strerror(error));
    }
  }
  return Unavailable("its page has no end");
}

}  // namespace quantd::quantctl
