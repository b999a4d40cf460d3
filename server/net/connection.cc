#include "server/net/connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_replace.h"
#include "fmt/format.h"
#include "server/gate/steady_time.h"

namespace quantd {
namespace {

ino_t InodeOf(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino
                                                             : 0;
}

// Bytes thrown away at a time. In small steps this would go on as long as the
// peer writes.
constexpr size_t kThrownAway = 1 << 20;

std::optional<tcp_info> TcpInfoOf(int fd) {
  tcp_info info = {};
  socklen_t size = sizeof(info);
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) {
    return std::nullopt;
  }
  return info;
}

// Bytes in the kernel's receive buffer.
int UnreadOf(int fd) {
  int unread = 0;
  return ioctl(fd, SIOCINQ, &unread) == 0 ? unread : 0;
}

// Host and port, such as "ipv4:127.0.0.1" and 4711; nullopt if it is not TCP.
std::optional<std::pair<std::string, int>> PeerOf(int fd) {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    return std::nullopt;
  }
  auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
  char text[INET6_ADDRSTRLEN] = "";
  const bool mapped =
      storage.ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr);
  if (storage.ss_family == AF_INET || mapped) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage);
    inet_ntop(AF_INET,
              mapped ? static_cast<const void*>(&v6.sin6_addr.s6_addr[12])
                     : &v4.sin_addr,
              text, sizeof(text));
    // The port is at the same offset for both families.
    return std::pair(fmt::format("ipv4:{}", text), ntohs(v4.sin_port));
  }
  if (storage.ss_family != AF_INET6) return std::nullopt;
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  // In gRPC's notation of scopes.
  const std::string scope =
      v6.sin6_scope_id == 0 ? "" : fmt::format("%{}", v6.sin6_scope_id);
  return std::pair(fmt::format("ipv6:[{}{}]", text, scope),
                   ntohs(v6.sin6_port));
}

}  // namespace

std::shared_ptr<Connection> Connection::Of(int fd) {
  auto [host, port] = PeerOf(fd).value_or(std::pair("unix", 0));
  return std::shared_ptr<Connection>(new Connection(fd, std::move(host), port));
}

Connection::Connection(int fd, std::string host, int port)
    : fd_(fd),
      inode_(InodeOf(fd)),
      tcp_(port != 0),
      host_(std::move(host)),
      name_(tcp_ ? fmt::format("{}:{}", host_, port) : "unix:") {}

bool Connection::Open() const { return fd_ >= 0 && InodeOf(fd_) == inode_; }

std::optional<uint64_t> Connection::Received() const {
  const auto info = tcp_ && Open() ? TcpInfoOf(fd_) : std::nullopt;
  if (!info) return std::nullopt;
  const uint64_t received = info->tcpi_bytes_received;
  return received - std::min<uint64_t>(UnreadOf(fd_), received);
}

bool Connection::HasUnread() const { return Open() && UnreadOf(fd_) > 0; }

std::optional<Connection::Sending> Connection::Sent() const {
  if (!Open()) return std::nullopt;
  int waiting = 0;
  if (ioctl(fd_, SIOCOUTQ, &waiting) != 0) return std::nullopt;
  Sending sending;
  sending.waiting = static_cast<uint64_t>(waiting);
  // Unix sockets do not count the bytes that the peer took. Instead, the fewer
  // bytes wait, the more count as taken.
  sending.taken = UINT64_MAX - sending.waiting;
  if (tcp_) {
    const auto info = TcpInfoOf(fd_);
    if (!info) return std::nullopt;
    sending.taken = info->tcpi_bytes_acked;
  }
  return sending;
}

void Connection::Shut() const {
  // Duplicated for a moment: otherwise another socket could get the
  // descriptor's number between the check and the shutdown.
  const int own = fd_ < 0 ? -1 : fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (own < 0) return;
  if (InodeOf(own) == inode_) {
    shutdown(own, SHUT_RDWR);
    // Discards received bytes: gRPC would read them all first. MSG_TRUNC writes
    // nothing for TCP, but a sanitizer takes it for a plain read.
    static char unused[kThrownAway];
    while (tcp_ &&
           recv(own, unused, kThrownAway, MSG_DONTWAIT | MSG_TRUNC) > 0) {
    }
  }
  close(own);
}

void Connection::CallEnds() {
  idle_since_ = absl::ToUnixNanos(SteadyNow());
  calls_.fetch_sub(1, std::memory_order_relaxed);
}

std::string PeerName(std::string_view peer) {
  return absl::StrReplaceAll(std::string(peer),
                             {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
}

}  // namespace quantd
