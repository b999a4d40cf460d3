#include "server/memory/descriptor.h"

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <system_error>
#include <thread>
#include <utility>

namespace quantd {
namespace {

constexpr int kMostClosing = 256;

std::atomic<int> g_closing = 0;

void CloseApart(int fd) {
  // Most of what blocks does so no more, and keeps no thread.
  const linger none = {};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
  close(fd);
  --g_closing;
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(apart_, other.apart_);
  return *this;
}

Descriptor::~Descriptor() {
  if (fd_ < 0) return;
  if (!apart_) {
    close(fd_);
    return;
  }
  ++g_closing;
  try {
    std::thread(CloseApart, fd_).detach();
  } catch (const std::system_error&) {
    CloseApart(fd_);  // there are no more threads to have
  }
}

bool ClosingIsBehind() { return g_closing >= kMostClosing; }

}  // namespace quantd
