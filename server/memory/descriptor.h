// A file descriptor that closes itself. Closing one that a client handed in may
// take as long as the client likes: a TCP socket lingers, a file of FUSE or NFS
// asks its server, and descriptors left unread in a socket are closed with it.
// Such descriptors are closed on another thread.
//
// Threads: everything here may be used from any thread, and does not wait.
#ifndef QUANTD_SERVER_MEMORY_DESCRIPTOR_H_
#define QUANTD_SERVER_MEMORY_DESCRIPTOR_H_

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <system_error>
#include <thread>
#include <utility>

namespace quantd {

// Owns a descriptor, or -1. Move-only.
class Descriptor {
 public:
  // `apart` closes it on a thread of its own, since a client decides how long
  // that takes.
  explicit Descriptor(int fd = -1, bool apart = false)
      : fd_(fd), apart_(apart) {}
  Descriptor(Descriptor&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), apart_(other.apart_) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(apart_, other.apart_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ < 0) return;
    if (!apart_) {
      close(fd_);
      return;
    }
    ++closing_;
    try {
      std::thread(CloseApart, fd_).detach();
    } catch (const std::system_error&) {
      CloseApart(fd_);  // no thread can be started
    }
  }
  int get() const { return fd_; }
  // Whether so many are being closed that no more should be accepted.
  static bool ClosingIsBehind() { return closing_ >= kMostClosing; }

 private:
  static constexpr int kMostClosing = 256;

  static void CloseApart(int fd) {
    // Without lingering, most sockets close at once and need no thread.
    const linger none = {};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
    close(fd);
    --closing_;
  }

  inline static std::atomic<int> closing_ = 0;
  int fd_;
  bool apart_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_MEMORY_DESCRIPTOR_H_
