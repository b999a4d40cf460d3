#include "server/net/acceptor.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "server/gate/steady_time.h"
#include "server/observe/log.h"

namespace quantd {
namespace {

// Interval between looks at peers. Without them a peer that takes nothing would
// occupy its reply's memory for ever.
constexpr int kSweepMs = 200;

}  // namespace

uint64_t RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlimit raised = {limit.rlim_max, limit.rlim_max};
  return setrlimit(RLIMIT_NOFILE, &raised) == 0 ? raised.rlim_cur
                                                : limit.rlim_cur;
}

size_t MostConnections() {
  constexpr size_t kEnough = 4096;
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kEnough;
  // The other half is for files, queues, devices and metrics.
  return std::clamp<size_t>(limit.rlim_cur / 2, 1, kEnough);
}

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Listen(
    std::string_view address, const Limits& limits) {
  auto sockets = ListenSockets::Open(address);
  if (!sockets.ok()) return sockets.status();
  return std::unique_ptr<Acceptor>(new Acceptor(*std::move(sockets), limits));
}

Acceptor::Acceptor(ListenSockets sockets, const Limits& limits)
    : limits_(limits), sockets_(std::move(sockets)) {}

void Acceptor::Start(std::unique_ptr<GrpcAcceptor> to) {
  to_ = std::move(to);
  thread_ = std::thread([this] { Run(); });
}

void Acceptor::Stop() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  // Shutting the sockets down wakes the thread.
  for (const int fd : sockets_.descriptors()) shutdown(fd, SHUT_RDWR);
  thread_.join();
  // The kernel refuses connections from now on.
  sockets_.Close();
}

void Acceptor::Run() {
  std::vector<pollfd> polled;
  for (const int fd : sockets_.descriptors()) polled.push_back({fd, POLLIN, 0});
  absl::Time swept = SteadyNow();
  while (true) {
    poll(polled.data(), polled.size(), kSweepMs);
    for (const pollfd& socket : polled) {
      if (stopping_) return;
      if (socket.revents != 0) Accept(socket.fd);
    }
    const absl::Time now = SteadyNow();
    if (now - swept < absl::Milliseconds(kSweepMs)) continue;
    Sweep(now);
    swept = now;
  }
}

void Acceptor::Accept(int listening) {
  const int fd =
      accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) {
    if (errno == EINTR || errno == ECONNABORTED || errno == EAGAIN ||
        errno == EWOULDBLOCK) {
      return;
    }
    // Descriptors or memory are used up. The kernel keeps the connection
    // meanwhile; without a pause this loop would use up a core.
    LogSampled(LogLevel::kWarn, "accept_failed", "",
               {{"error", std::strerror(errno)}});
    pollfd stop = {listening, 0, 0};
    poll(&stop, 1, kSweepMs);
    return;
  }
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const std::shared_ptr<Connection> connection = Connection::Of(fd);
  {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = SteadyNow();
    if (entries_.size() >= limits_.connections && !MakeRoom(now)) {
      close(fd);
      return;
    }
    entries_.emplace(connection->name(), Entry{connection, 0, now});
  }
  GrpcAcceptor::NewConnectionParameters parameters;
  parameters.listener_fd = listening;
  parameters.fd = fd;
  to_->HandleNewConnection(&parameters);
}

bool Acceptor::MakeRoom(absl::Time now) {
  ForgetClosed();
  if (entries_.size() < limits_.connections) return true;
  auto idle = entries_.end();
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    const Connection& c = *it->second.connection;
    if (c.calls() != 0 || now - c.idle_since() < limits_.idle) continue;
    if (idle == entries_.end() ||
        c.idle_since() < idle->second.connection->idle_since()) {
      idle = it;
    }
  }
  if (idle == entries_.end()) return false;
  idle->second.connection->Shut();
  // gRPC closes it in a moment, so it no longer counts.
  entries_.erase(idle);
  return true;
}

void Acceptor::Sweep(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  for (auto& [name, entry] : entries_) {
    const auto sent = entry.connection->Sent();
    if (!sent || sent->waiting == 0 || sent->taken != entry.taken) {
      entry.taken = sent ? sent->taken : 0;
      entry.moved = now;
    } else if (now - entry.moved > limits_.max_stuck) {
      Log(LogLevel::kInfo, "connection_stuck",
          {{"peer", name}, {"bytes", sent->waiting}});
      entry.connection->Shut();
      entry.moved = now;
    }
  }
  ForgetClosed();
}

size_t Acceptor::EndAll() {
  absl::MutexLock lock(&mutex_);
  ForgetClosed();
  for (const auto& [name, entry] : entries_) entry.connection->Shut();
  return entries_.size();
}

void Acceptor::ForgetClosed() {
  std::erase_if(entries_,
                [](const auto& e) { return !e.second.connection->Open(); });
}

std::shared_ptr<Connection> Acceptor::Find(std::string_view peer) const {
  const std::string name = PeerName(peer);
  absl::MutexLock lock(&mutex_);
  const auto next = entries_.upper_bound(name);
  if (next == entries_.begin()) return unknown_;
  const auto& [found, entry] = *std::prev(next);
  return found == name && entry.connection->countable() ? entry.connection
                                                        : unknown_;
}

}  // namespace quantd
