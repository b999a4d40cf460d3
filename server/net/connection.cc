#include "server/net/connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "fmt/format.h"
#include "server/gate/steady_time.h"

namespace quantd {
namespace {

ino_t InodeOf(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino
                                                             : 0;
}

// Of what a socket holds, at a time.
constexpr size_t kUnreadMost = 1 << 20;

// Bytes of each backlog; the kernel takes twice that, for its own needs.
constexpr std::pair<Sender::Backlog, int> kBacklogs[] = {
    {Sender::Backlog::kLeast, 1 << 10},
    {Sender::Backlog::kSmall, 32 << 10},
    {Sender::Backlog::kWindow, 256 << 10},
};

#ifndef SO_BUF_LOCK  // Linux 5.14; glibc learned of it later
#define SO_BUF_LOCK 72
#endif

std::optional<tcp_info> TcpInfoOf(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) {
    return std::nullopt;
  }
  return info;
}

// What the kernel keeps.
int UnreadOf(int fd) {
  int unread = 0;
  return ioctl(fd, SIOCINQ, &unread) == 0 ? unread : 0;
}

// Bytes that have come and been read. What waits in the kernel may be much if
// the machine is busy, and is bounded by the backlog.
std::optional<uint64_t> ReadFrom(int fd) {
  const auto info = TcpInfoOf(fd);
  if (!info) return std::nullopt;
  const auto unread = static_cast<uint64_t>(UnreadOf(fd));
  const uint64_t received = info->tcpi_bytes_received;
  return received - std::min(unread, received);
}

struct Peer {
  std::string host;  // "ipv4:127.0.0.1"
  int port = 0;
};

std::optional<Peer> PeerOf(int fd) {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    return std::nullopt;
  }
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return Peer{fmt::format("ipv4:{}", text), ntohs(v4.sin_port)};
  }
  if (storage.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage);
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
      inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text, sizeof(text));
      return Peer{fmt::format("ipv4:{}", text), ntohs(v6.sin6_port)};
    }
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
    // As gRPC writes the scope of an address that has one.
    std::string host = text;
    if (v6.sin6_scope_id != 0) host += fmt::format("%{}", v6.sin6_scope_id);
    return Peer{fmt::format("ipv6:[{}]", host), ntohs(v6.sin6_port)};
  }
  return std::nullopt;
}

}  // namespace

std::shared_ptr<Connection> Connection::Of(int fd) {
  Peer peer = PeerOf(fd).value_or(Peer{"unix", 0});
  return std::shared_ptr<Connection>(
      new Connection(fd, std::move(peer.host), peer.port));
}

Connection::Connection(int fd, std::string host, int port)
    : Sender(std::move(host)),
      fd_(fd),
      inode_(InodeOf(fd)),
      tcp_(port != 0),
      name_(tcp_ ? fmt::format("{}:{}", Sender::host(), port) : "unix:") {}

bool Connection::Open() const { return fd_ >= 0 && InodeOf(fd_) == inode_; }

bool Connection::HasHungUp() const {
  pollfd polled = {fd_, POLLRDHUP, 0};
  return Open() && poll(&polled, 1, 0) > 0;
}

std::optional<uint64_t> Connection::Received() const {
  if (!tcp_ || !Open()) return std::nullopt;
  return ReadFrom(fd_);
}

bool Connection::HasUnread() const { return Open() && UnreadOf(fd_) > 0; }

std::optional<Connection::Sending> Connection::Sent() const {
  if (!Open()) return std::nullopt;
  int waiting = 0;
  if (ioctl(fd_, SIOCOUTQ, &waiting) != 0) return std::nullopt;
  Sending sending;
  sending.waiting = static_cast<uint64_t>(waiting);
  // Where nobody counts what was taken, a change of what waits must do.
  sending.taken = UINT64_MAX - sending.waiting;
  if (tcp_) {
    const auto info = TcpInfoOf(fd_);
    if (!info) return std::nullopt;
    sending.taken = info->tcpi_bytes_acked;
  }
  return sending;
}

void Connection::WithSocket(absl::FunctionRef<void(int fd)> deed) const {
  // A descriptor of our own for a moment: the number may become another's
  // between the question and the deed.
  const int own = fd_ < 0 ? -1 : fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return;
  if (InodeOf(own) == inode_) deed(own);
  close(own);
}

void Connection::AllowBacklog(Backlog backlog) {
  if (!tcp_ || backlog_.exchange(backlog) == backlog) return;
  WithSocket([&](int fd) {
    // Who cannot give a buffer back to the kernel's care must not take it.
    const int unlocked = 0;
    if (setsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &unlocked, sizeof(unlocked)) !=
        0) {
      return;
    }
    for (const auto& [which, bytes] : kBacklogs) {
      if (which != backlog) continue;
      setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    }
  });
}

void Connection::Pause(bool paused) {
  if (paused == (paused_since_ != absl::InfiniteFuture())) return;
  paused_since_ = paused ? SteadyNow() : absl::InfiniteFuture();
  // Of a segment with payload nothing, any other in full. The kernel shows the
  // filter what follows the IP header.
  constexpr uint32_t kHeaderWords = 12;  // in the upper half of this byte
  sock_filter deeds[] = {
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kHeaderWords),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xF0),
      BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 2),
      BPF_STMT(BPF_MISC | BPF_TAX, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_X, 0, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, 0),
      BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
  };
  WithSocket([&](int fd) {
    const sock_fprog program = {std::size(deeds), deeds};
    setsockopt(fd, SOL_SOCKET, paused ? SO_ATTACH_FILTER : SO_DETACH_FILTER,
               &program, sizeof(program));
  });
}

uint64_t Connection::ReceivedUnanswered() {
  if (!tcp_ || !Open()) return 0;
  const auto info = TcpInfoOf(fd_);
  if (!info) return 0;
  if (info->tcpi_bytes_sent != answered_) {
    answered_ = info->tcpi_bytes_sent;
    received_by_then_ = info->tcpi_bytes_received;
  }
  return info->tcpi_bytes_received - received_by_then_;
}

void Connection::Shut() const {
  WithSocket([this](int fd) {
    shutdown(fd, SHUT_RDWR);
    if (!tcp_) return;
    // What has come is thrown away: gRPC would read it all first. Of TCP
    // MSG_TRUNC writes nothing; a sanitizer takes it for a plain read.
    static char unused[kUnreadMost];
    while (recv(fd, unused, kUnreadMost, MSG_DONTWAIT | MSG_TRUNC) > 0) {
    }
  });
}

void Connection::CallBegins() {
  used_ = true;
  const int now = calls_.fetch_add(1, std::memory_order_relaxed) + 1;
  int most = most_calls_;
  while (now > most && !most_calls_.compare_exchange_weak(most, now)) {
  }
}

void Connection::CallEnds() {
  idle_since_ = absl::ToUnixNanos(SteadyNow());
  calls_.fetch_sub(1, std::memory_order_relaxed);
}

bool Connection::CallReset() {
  // A thousand a second, and all streams of a connection at once: clients give
  // up, proxies for many of them.
  constexpr int64_t kEach = 1'000'000;
  constexpr int64_t kAtOnce = 256 * kEach;
  const int64_t now = absl::ToUnixNanos(SteadyNow());
  int64_t until = resets_paid_until_;
  while (!resets_paid_until_.compare_exchange_weak(
      until, std::max(until, now) + kEach)) {
  }
  return until - now > kAtOnce;
}

absl::Time Connection::idle_since() const {
  return absl::FromUnixNanos(idle_since_);
}

std::string PeerName(std::string_view peer) {
  std::string name;
  for (size_t i = 0; i < peer.size(); ++i) {
    if (peer[i] == '%' && i + 2 < peer.size() &&
        absl::ascii_isxdigit(peer[i + 1]) &&
        absl::ascii_isxdigit(peer[i + 2])) {
      name += absl::HexStringToBytes(absl::string_view(peer.data() + i + 1, 2));
      i += 2;
    } else {
      name += peer[i];
    }
  }
  return name;
}

}  // namespace quantd
