#include "server/observe/http_listener.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "fmt/format.h"
#include "proto/net/address.h"

namespace quantd {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kEndOfHead = "\r\n\r\n";
// After a failed accept, such as one for want of descriptors.
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr int kMostScrapes = 64;

std::string_view Reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 431:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    default:
      return "Internal Server Error";
  }
}

HttpReply BadRequest(std::string_view why) {
  return {400, fmt::format("{}\n", why)};
}

// What no HTTP/1 request starts with, told as soon as its first byte is there:
// a TLS handshake, an HTTP/2 preface would wait for an answer in vain.
bool LooksLikeHttp(std::string_view head) {
  return head.empty() || (head.front() >= 'A' && head.front() <= 'Z');
}

// The value of the first header of that name, which is in small letters and
// ends with its colon; empty: there is none.
std::string_view HeaderOf(std::string_view head, std::string_view name) {
  for (size_t at = head.find("\r\n"); at != std::string_view::npos;
       at = head.find("\r\n", at)) {
    at += 2;
    const std::string_view line = head.substr(at, head.find("\r\n", at) - at);
    if (absl::StartsWithIgnoreCase({line.data(), line.size()},
                                   {name.data(), name.size()})) {
      return line.substr(name.size());
    }
  }
  return "";
}

}  // namespace

struct HttpListener::Connection {
  enum State { kLingering, kReceiving, kSending };  // first to go first

  explicit Connection(int socket) : fd(socket) {}
  Connection(const Connection&) = delete;
  ~Connection() { close(fd); }

  const int fd;
  State state = kReceiving;
  Clock::time_point until;
  std::string in;
  std::string out;
  size_t sent = 0;
};

absl::StatusOr<std::unique_ptr<HttpListener>> HttpListener::Start(
    std::string_view address, Handler handler, const HttpLimits& limits) {
  if (auto s = security::CheckTcpAddress("cannot listen on", address);
      !s.ok()) {
    return s;
  }
  auto sockets = ListenSockets::Open(address, kMostScrapes);
  if (!sockets.ok()) return sockets.status();
  const int stop = eventfd(0, EFD_CLOEXEC);
  if (stop < 0) {
    return absl::UnavailableError(
        fmt::format("cannot make an eventfd: {}", strerror(errno)));
  }
  auto listener = std::unique_ptr<HttpListener>(
      new HttpListener(*std::move(sockets), stop, std::move(handler), limits));
  listener->thread_ = std::thread([self = listener.get()] { self->Run(); });
  return listener;
}

HttpListener::HttpListener(ListenSockets sockets, int stop, Handler handler,
                           const HttpLimits& limits)
    : handler_(std::move(handler)),
      limits_(limits),
      sockets_(std::move(sockets)),
      stop_(stop) {}

HttpListener::~HttpListener() {
  if (thread_.joinable()) {
    const uint64_t one = 1;
    // An eventfd of our own takes one number at any time.
    [[maybe_unused]] const ssize_t n = write(stop_, &one, sizeof(one));
    thread_.join();
  }
  close(stop_);
}

void HttpListener::Run() {
  std::vector<pollfd> polled;
  while (true) {
    polled = {{stop_, POLLIN, 0}};
    for (const int fd : sockets_.descriptors()) {
      polled.push_back({fd, static_cast<short>(accepting_ ? POLLIN : 0), 0});
    }
    const size_t first_connection = polled.size();
    Clock::time_point wake = Clock::time_point::max();
    if (!accepting_) wake = Clock::now() + kAcceptPause;
    for (const Connection& c : connections_) {
      const bool sends = c.state == Connection::kSending;
      polled.push_back({c.fd, static_cast<short>(sends ? POLLOUT : POLLIN), 0});
      wake = std::min(wake, c.until);
    }
    int timeout = -1;
    if (wake != Clock::time_point::max()) {
      // Rounded up, or the last millisecond would be spent spinning.
      timeout = static_cast<int>(std::max<int64_t>(
          0, (wake - Clock::now()) / std::chrono::milliseconds(1) + 1));
    }
    poll(polled.data(), polled.size(), timeout);
    if (polled[0].revents != 0) break;
    accepting_ = true;
    const Clock::time_point now = Clock::now();
    size_t i = first_connection;
    for (auto c = connections_.begin(); c != connections_.end(); ++i) {
      bool open = true;
      // Time first, or who never stops sending would never be stopped.
      if (now >= c->until) {
        open = OnTimeout(*c);
      } else if (polled[i].revents != 0) {
        open = Advance(*c);
      }
      c = open ? std::next(c) : connections_.erase(c);
    }
    for (size_t k = 1; k < first_connection; ++k) {
      if (polled[k].revents != 0) Accept(polled[k].fd);
    }
  }
  connections_.clear();
}

void HttpListener::Accept(int listening) {
  const int fd =
      accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) {
    // Those who wait would wake the loop again at once, for nothing.
    accepting_ = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
    return;
  }
  if (connections_.size() >= limits_.connections) MakeRoom();
  connections_.emplace_back(fd).until = Clock::now() + limits_.receive;
}

void HttpListener::MakeRoom() {
  connections_.erase(
      std::min_element(connections_.begin(), connections_.end(),
                       [](const Connection& a, const Connection& b) {
                         return a.state < b.state;
                       }));
}

bool HttpListener::Advance(Connection& c) {
  return c.state == Connection::kSending ? Send(c) : Receive(c);
}

bool HttpListener::Receive(Connection& c) {
  std::array<char, 4096> buffer;
  const ssize_t n = recv(c.fd, buffer.data(), buffer.size(), 0);
  if (n == 0) return false;
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  if (c.state == Connection::kLingering) return true;  // heard, not listened to
  // The end of the head may lie across two reads.
  const size_t seen = c.in.size() - std::min<size_t>(c.in.size(), 3);
  c.in.append(buffer.data(), static_cast<size_t>(n));
  if (!LooksLikeHttp(c.in)) {
    Reply(c, BadRequest("this port speaks HTTP/1.1 without TLS"), false);
  } else if (const size_t end = c.in.find(kEndOfHead, seen);
             end != std::string::npos && end <= limits_.request_bytes) {
    c.in.resize(end);
    Answer(c);
  } else if (c.in.size() > limits_.request_bytes) {
    Reply(c,
          {431, fmt::format("a request may have at most {} bytes\n",
                            limits_.request_bytes)},
          false);
  } else {
    return true;
  }
  return Send(c);
}

void HttpListener::Answer(Connection& c) {
  const std::string_view line =
      std::string_view(c.in).substr(0, c.in.find("\r\n"));
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last ||
      !line.substr(last + 1).starts_with("HTTP/1.")) {
    return Reply(c, BadRequest("expected: GET /PATH HTTP/1.1"), false);
  }
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const bool head = method == "HEAD";
  if (method != "GET" && !head) {
    return Reply(c, {405, "only GET and HEAD are served here\n"}, false);
  }
  const bool printable = std::all_of(target.begin(), target.end(), [](char b) {
    return b > 0x20 && b < 0x7f;
  });
  if (!target.starts_with('/') || !printable) {
    return Reply(c, BadRequest("expected: GET /PATH HTTP/1.1"), false);
  }
  Reply(
      c,
      handler_({target.substr(0, target.find('?')), HeaderOf(c.in, "accept:")}),
      head);
}

void HttpListener::Reply(Connection& c, const HttpReply& reply,
                         bool head_only) {
  c.out = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n"
      "{}Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
      "Connection: close\r\n\r\n",
      reply.status, Reason(reply.status), reply.type, reply.body.size(),
      reply.status == 405 ? "Allow: GET, HEAD\r\n" : "");
  if (!head_only) c.out += reply.body;
  c.in = std::string();
  c.state = Connection::kSending;
  c.until = Clock::now() + limits_.send;
}

bool HttpListener::Send(Connection& c) {
  const ssize_t n =
      send(c.fd, c.out.data() + c.sent, c.out.size() - c.sent, MSG_NOSIGNAL);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  c.sent += static_cast<size_t>(n);
  if (c.sent < c.out.size()) return true;
  c.out = std::string();
  shutdown(c.fd, SHUT_WR);
  c.state = Connection::kLingering;
  c.until = Clock::now() + limits_.linger;
  return true;
}

bool HttpListener::OnTimeout(Connection& c) {
  if (c.state != Connection::kReceiving) return false;
  Reply(c, {408, "the request did not arrive in time\n"}, false);
  return Send(c);
}

}  // namespace quantd
