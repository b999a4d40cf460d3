#include "server/observe/http_listener.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "proto/net/address.h"

namespace quantd {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kAcceptPause{10};

std::string Write(const HttpReply& reply, bool head_only) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n"
      "Allow: GET, HEAD\r\nCache-Control: no-store\r\n"
      "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n{}",
      reply.status, reply.type, reply.body.size(), head_only ? "" : reply.body);
}

}  // namespace

struct HttpListener::Connection {
  Connection(int socket, Clock::time_point end) : fd(socket), until(end) {}
  Connection(const Connection&) = delete;
  ~Connection() { close(fd); }

  const int fd;
  Clock::time_point until;
  std::string in;
  std::string out;  // empty while the request arrives
  size_t sent = 0;
};

absl::StatusOr<std::unique_ptr<HttpListener>> HttpListener::Start(
    std::string_view address, Handler handler, const HttpLimits& limits) {
  if (auto s = security::CheckTcpAddress("cannot listen on", address);
      !s.ok()) {
    return s;
  }
  auto sockets = ListenSockets::Open(address);
  if (!sockets.ok()) return sockets.status();
  auto listener = std::unique_ptr<HttpListener>(
      new HttpListener(*std::move(sockets), std::move(handler), limits));
  listener->thread_ = std::thread([self = listener.get()] { self->Run(); });
  return listener;
}

HttpListener::HttpListener(ListenSockets sockets, Handler handler,
                           const HttpLimits& limits)
    : handler_(std::move(handler)),
      limits_(limits),
      sockets_(std::move(sockets)) {}

HttpListener::~HttpListener() {
  stopping_ = true;
  // Shutting the sockets down wakes the thread.
  for (const int fd : sockets_.descriptors()) shutdown(fd, SHUT_RD);
  if (thread_.joinable()) thread_.join();
}

void HttpListener::Run() {
  std::vector<pollfd> polled;
  while (!stopping_) {
    polled.clear();
    for (const int fd : sockets_.descriptors()) {
      polled.push_back({fd, POLLIN, 0});
    }
    size_t i = polled.size();
    auto wait = std::chrono::milliseconds(std::chrono::minutes(1));
    for (const Connection& c : connections_) {
      polled.push_back(
          {c.fd, static_cast<short>(c.out.empty() ? POLLIN : POLLOUT), 0});
      wait = std::min(wait, std::chrono::ceil<std::chrono::milliseconds>(
                                c.until - Clock::now()));
    }
    poll(polled.data(), polled.size(), std::max<int>(0, wait.count()));
    connections_.remove_if([&](Connection& c) {
      const bool ready = polled[i++].revents != 0;
      return Clock::now() >= c.until || (ready && !Advance(c));
    });
    for (const int fd : sockets_.descriptors()) Accept(fd);
  }
  connections_.clear();
}

void HttpListener::Accept(int listening) {
  const int fd =
      accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) {
    if (connections_.size() >= limits_.connections) connections_.pop_front();
    connections_.emplace_back(fd, Clock::now() + limits_.patience);
  } else if (errno == EMFILE || errno == ENFILE) {
    // Pending connections would wake the loop again at once, for nothing.
    std::this_thread::sleep_for(kAcceptPause);
  }
}

bool HttpListener::Advance(Connection& c) {
  if (c.out.empty()) {
    std::array<char, 4096> buffer;
    const ssize_t n = recv(c.fd, buffer.data(), buffer.size(), 0);
    if (n <= 0) return n < 0 && (errno == EAGAIN || errno == EINTR);
    c.in.append(buffer.data(), static_cast<size_t>(n));
    c.out = Answer(c.in);
    if (c.out.empty()) return true;
    c.until = Clock::now() + limits_.patience;
  }
  const ssize_t n =
      send(c.fd, c.out.data() + c.sent, c.out.size() - c.sent, MSG_NOSIGNAL);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  c.sent += static_cast<size_t>(n);
  return c.sent < c.out.size();
}

// Returns the reply; empty if the request's head is incomplete.
std::string HttpListener::Answer(std::string_view head) const {
  const auto refuse = [](std::string_view status, std::string_view why) {
    return Write({status, fmt::format("{}\n", why)}, false);
  };
  // Probably a TLS handshake, which would wait for an answer in vain.
  if (head.front() < 'A' || head.front() > 'Z') {
    return refuse("400 Bad Request", "this port speaks HTTP/1.1 without TLS");
  }
  const size_t end = head.find("\r\n\r\n");
  if (std::min(end, head.size()) > limits_.request_bytes) {
    return refuse("431 Request Header Fields Too Large",
                  "the request is too long");
  }
  if (end == std::string_view::npos) return "";
  const std::string line(head.substr(0, head.find("\r\n")));
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  if (words.size() != 3 || !words[1].starts_with('/') ||
      !words[2].starts_with("HTTP/1.") ||
      !std::all_of(line.begin(), line.end(),
                   [](char b) { return b >= 0x20 && b < 0x7f; })) {
    return refuse("400 Bad Request", "expected: GET /PATH HTTP/1.1");
  }
  if (words[0] != "GET" && words[0] != "HEAD") {
    return refuse("405 Method Not Allowed", "only GET and HEAD are served");
  }
  return Write(handler_(words[1].substr(0, words[1].find('?'))),
               words[0] == "HEAD");
}

}  // namespace quantd
