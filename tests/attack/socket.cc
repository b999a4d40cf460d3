#include "tests/attack/socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace quantd::attack {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLongestWait{60'000};

std::atomic<uint64_t> sent_by_all = 0;
std::atomic<bool> all_reset = false;

void Reset(int fd) {
  const linger at_once = {.l_onoff = 1, .l_linger = 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
}

int ConnectUnix(const std::string& path) {
  sockaddr_un to = {};
  to.sun_family = AF_UNIX;
  if (path.size() >= sizeof(to.sun_path)) return -1;
  std::memcpy(to.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0) return fd;
  close(fd);
  return -1;
}

int ConnectTcp(const Target& target, milliseconds most) {
  const size_t colon = target.address.rfind(':');
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(
      std::atoi(target.address.substr(colon + 1).c_str())));
  if (inet_pton(AF_INET, target.address.substr(0, colon).c_str(),
                &to.sin_addr) != 1) {
    return -1;
  }
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (all_reset) Reset(fd);
  sockaddr_in from = {};
  from.sin_family = AF_INET;
  bool ok = target.source.empty() ||
            (inet_pton(AF_INET, target.source.c_str(), &from.sin_addr) == 1 &&
             bind(fd, reinterpret_cast<sockaddr*>(&from), sizeof(from)) == 0);
  if (ok && connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) {
    pollfd polled = {fd, POLLOUT, 0};
    int error = errno;
    socklen_t size = sizeof(error);
    ok = error == EINPROGRESS &&
         poll(&polled, 1, static_cast<int>(most.count())) == 1 &&
         getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
  }
  if (ok) return fd;
  close(fd);
  return -1;
}

milliseconds Until(Socket::Clock::time_point end) {
  return std::clamp(std::chrono::ceil<milliseconds>(end - Socket::Clock::now()),
                    milliseconds(0), kLongestWait);
}

}  // namespace

std::unique_ptr<Socket> Socket::ConnectBare(const Target& target,
                                            Clock::time_point end) {
  const int fd = target.address.starts_with("unix:")
                     ? ConnectUnix(target.address.substr(5))
                     : ConnectTcp(target, Until(end));
  if (fd < 0) return nullptr;
  return std::unique_ptr<Socket>(new Socket(fd, end));
}

std::unique_ptr<Socket> Socket::Connect(const Target& target,
                                        Clock::time_point end) {
  auto made = ConnectBare(target, end);
  if (made != nullptr && target.tls && !made->Handshake(target)) return nullptr;
  return made;
}

Socket::~Socket() {
  SSL_free(ssl_);
  SSL_CTX_free(context_);
  close(fd_);
}

uint64_t Socket::SentByAll() { return sent_by_all; }

void Socket::ResetAll() {
  all_reset = true;
  const auto most = static_cast<int>(sysconf(_SC_OPEN_MAX));
  for (int fd = STDERR_FILENO + 1; fd < most; ++fd) Reset(fd);
}

bool Socket::Handshake(const Target& target) {
  static constexpr unsigned char kH2[] = {2, 'h', '2'};
  context_ = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_mode(context_, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                 SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (!target.certificate.empty()) {
    SSL_CTX_use_certificate_file(context_, target.certificate.c_str(),
                                 SSL_FILETYPE_PEM);
    SSL_CTX_use_PrivateKey_file(context_, target.key.c_str(), SSL_FILETYPE_PEM);
  }
  ssl_ = SSL_new(context_);
  SSL_set_alpn_protos(ssl_, kH2, sizeof(kH2));
  SSL_set_tlsext_host_name(ssl_, "localhost");
  SSL_set_fd(ssl_, fd_);
  while (!over()) {
    const int done = SSL_connect(ssl_);
    if (done == 1) return true;
    const int error = SSL_get_error(ssl_, done);
    if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_WANT_WRITE) break;
    Wait(error == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT, kLongestWait);
  }
  return false;
}

bool Socket::Wait(short events, milliseconds most) {
  pollfd polled = {fd_, events, 0};
  return poll(&polled, 1,
              static_cast<int>(std::min(most, Until(end_)).count())) == 1;
}

bool Socket::Send(std::string_view bytes) {
  while (alive_ && !bytes.empty()) {
    ssize_t n = 0;
    bool again = false;
    if (ssl_ != nullptr) {
      n = SSL_write(ssl_, bytes.data(),
                    static_cast<int>(std::min(bytes.size(), size_t{1} << 20)));
      const int error = SSL_get_error(ssl_, static_cast<int>(n));
      again = error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_WANT_READ;
    } else {
      n = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      again = n < 0 && (errno == EAGAIN || errno == EINTR);
    }
    if (n > 0) {
      sent_by_all += static_cast<uint64_t>(n);
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (again) {
      if (over()) return false;
      Wait(POLLOUT, kLongestWait);
    } else {
      alive_ = false;
    }
  }
  return alive_;
}

void Socket::Receive(std::string* to, milliseconds wait) {
  char buffer[64 << 10];
  while (alive_) {
    ssize_t n = 0;
    bool again = false;
    if (ssl_ != nullptr) {
      n = SSL_read(ssl_, buffer, sizeof(buffer));
      const int error = SSL_get_error(ssl_, static_cast<int>(n));
      again = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
    } else {
      n = recv(fd_, buffer, sizeof(buffer), MSG_DONTWAIT);
      again = n < 0 && (errno == EAGAIN || errno == EINTR);
    }
    if (n > 0) {
      to->append(buffer, static_cast<size_t>(n));
      // Stops at 1 MiB, so that a peer that sends without end does not block
      // this loop.
      if (to->size() >= (1 << 20)) return;
      wait = milliseconds(0);
    } else if (!again) {
      alive_ = false;
    } else if (wait.count() == 0 || !Wait(POLLIN, wait)) {
      return;
    } else {
      wait = milliseconds(0);
    }
  }
}

}  // namespace quantd::attack
