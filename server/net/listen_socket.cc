#include "server/net/listen_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "fmt/format.h"
#include "proto/net/address.h"

namespace quantd {
namespace {

constexpr std::string_view kUnix = "unix:";
constexpr std::string_view kAbstract = "unix-abstract:";

absl::Status CannotListen(std::string_view address, std::string_view why) {
  return absl::UnavailableError(
      fmt::format("cannot listen on {}: {}", address, why));
}

int PortOf(int fd) {
  sockaddr_storage bound = {};
  socklen_t size = sizeof(bound);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    return 0;
  }
  // The port of an IPv6 address is at the same offset.
  return ntohs(reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

// Returns a listening socket, or -1 with errno set.
int Bind(const sockaddr* address, socklen_t size) {
  const int fd =
      socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const int on = 1;
  const int off = 0;
  // A restart need not wait for connections that are still closing.
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address->sa_family == AF_INET6) {
    const auto& v6 = *reinterpret_cast<const sockaddr_in6*>(address);
    // Only the wildcard also takes connections over IPv4.
    const bool all = IN6_IS_ADDR_UNSPECIFIED(&v6.sin6_addr);
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, all ? &off : &on, sizeof(on));
  }
  if (bind(fd, address, size) == 0 && listen(fd, SOMAXCONN) == 0) return fd;
  const int why = errno;
  close(fd);
  errno = why;
  return -1;
}

// Removes the socket file of a dead server, at which nobody listens.
void RemoveStale(const std::string& path, const sockaddr_un& address) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  // Non-blocking: the queue of a live server may be full.
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) != 0 &&
      errno == ECONNREFUSED) {
    unlink(path.c_str());
  }
  close(fd);
}

std::pair<dev_t, ino_t> IdentityOf(const std::string& path) {
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino};
}

}  // namespace

OwnFile::OwnFile(std::string path)
    : path_(std::move(path)), identity_(IdentityOf(path_)) {}

void OwnFile::Remove() const {
  if (IdentityOf(path_) == identity_) unlink(path_.c_str());
}

absl::StatusOr<ListenSockets> ListenSockets::Open(std::string_view address) {
  ListenSockets sockets;
  if (address.starts_with(kUnix) || address.starts_with(kAbstract)) {
    if (auto s = sockets.OpenUnix(address); !s.ok()) return s;
    return sockets;
  }
  const auto parts = security::SplitHostPort(address);
  if (!parts.ok()) return parts.status();
  std::string why;
  // Every address, of both families if the machine has both.
  const bool all =
      parts->host == "0.0.0.0" && sockets.OpenHost("::", parts->port, &why);
  if (!all && !sockets.OpenHost(parts->host, parts->port, &why)) {
    return CannotListen(address, why);
  }
  sockets.address_ = fmt::format("{}:{}", address.substr(0, address.rfind(':')),
                                 PortOf(sockets.descriptors_.front()));
  return sockets;
}

void ListenSockets::Close() {
  // Another server may have replaced the files by now.
  for (const OwnFile& file : std::exchange(files_, {})) file.Remove();
  for (const int fd : std::exchange(descriptors_, {})) close(fd);
}

absl::Status ListenSockets::OpenUnix(std::string_view address) {
  const bool abstract = address.starts_with(kAbstract);
  const std::string name(
      address.substr(abstract ? kAbstract.size() : kUnix.size()));
  sockaddr_un un = {};
  un.sun_family = AF_UNIX;
  // A leading zero byte marks an abstract name.
  const size_t start = abstract ? 1 : 0;
  if (start + name.size() >= sizeof(un.sun_path)) {
    return CannotListen(address, "the name is too long");
  }
  std::memcpy(un.sun_path + start, name.data(), name.size());
  if (!abstract) RemoveStale(name, un);
  const socklen_t size =
      abstract ? offsetof(sockaddr_un, sun_path) + start + name.size()
               : sizeof(un);
  const int fd = Bind(reinterpret_cast<const sockaddr*>(&un), size);
  if (fd < 0) return CannotListen(address, std::strerror(errno));
  descriptors_.push_back(fd);
  address_ = address;
  if (!abstract) files_.emplace_back(name);
  return absl::OkStatus();
}

bool ListenSockets::OpenHost(const std::string& host, const std::string& port,
                             std::string* why) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error =
          getaddrinfo(host.c_str(), port.c_str(), &hints, &found)) {
    *why = gai_strerror(error);
    return false;
  }
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next) {
    if (!descriptors_.empty()) {
      // All addresses use the port that the first one was given.
      reinterpret_cast<sockaddr_in*>(a->ai_addr)->sin_port =
          htons(PortOf(descriptors_.front()));
    }
    const int fd = Bind(a->ai_addr, a->ai_addrlen);
    if (fd < 0) {
      *why = std::strerror(errno);
    } else {
      descriptors_.push_back(fd);
    }
  }
  freeaddrinfo(found);
  return !descriptors_.empty();
}

}  // namespace quantd
