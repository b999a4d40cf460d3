#include "server/net/acceptor.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>
#include <utility>

#include "absl/time/clock.h"
#include "server/gate/steady_time.h"
#include "server/observe/log.h"

namespace quantd {
namespace {

constexpr int kBacklog = 1024;
constexpr absl::Duration kSweepInterval = absl::Milliseconds(200);
// Descriptors that are no connections: files, queues, devices, metrics.
constexpr size_t kOwnDescriptors = 64;
// A connection without a call for so long makes room for another; one that
// never had any, at once, but for the time that its first may take.
constexpr absl::Duration kIdle = absl::Seconds(1);
constexpr absl::Duration kNeverUsed = absl::Milliseconds(50);

}  // namespace

size_t MostConnections() {
  constexpr size_t kEnough = 4096;
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kEnough;
  const size_t all = limit.rlim_cur;
  // A process with few descriptors needs few of its own.
  const size_t own = std::min(kOwnDescriptors, all / 2);
  return std::clamp<size_t>(all - own, 1, kEnough);
}

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Listen(
    std::string_view address, const Limits& limits) {
  auto sockets = ListenSockets::Open(address, kBacklog);
  if (!sockets.ok()) return sockets.status();
  auto acceptor =
      std::unique_ptr<Acceptor>(new Acceptor(*std::move(sockets), limits));
  if (acceptor->stop_ < 0) {
    return absl::UnavailableError("cannot make an eventfd");
  }
  return acceptor;
}

Acceptor::Acceptor(ListenSockets sockets, const Limits& limits)
    : limits_(limits),
      sockets_(std::move(sockets)),
      stop_(eventfd(0, EFD_CLOEXEC)) {}

Acceptor::~Acceptor() {
  Stop();
  if (stop_ >= 0) close(stop_);
}

void Acceptor::Start(std::unique_ptr<GrpcAcceptor> to) {
  to_ = std::move(to);
  accepting_ = std::thread([this] { RunAccepting(); });
  watching_ = std::thread([this] { RunWatching(); });
}

void Acceptor::Stop() {
  if (!accepting_.joinable()) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(stop_, &one, sizeof(one));
  accepting_.join();
  watching_.join();
  // Who still knocks is turned away by the kernel.
  sockets_.Close();
}

void Acceptor::RunAccepting() {
  std::vector<pollfd> polled = {{stop_, POLLIN, 0}};
  for (const int fd : sockets_.descriptors()) polled.push_back({fd, POLLIN, 0});
  while (true) {
    poll(polled.data(), polled.size(), -1);
    if (polled[0].revents != 0) return;
    for (size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents != 0) Accept(polled[i].fd);
    }
  }
}

void Acceptor::RunWatching() {
  pollfd stop = {stop_, POLLIN, 0};
  while (poll(&stop, 1,
              static_cast<int>(absl::ToInt64Milliseconds(kSweepInterval))) <=
         0) {
    Sweep(SteadyNow());
  }
}

void Acceptor::Accept(int listening) {
  // Not for ever: sweeps must be made in a flood, too.
  for (int i = 0; i < 64; ++i) {
    const int fd =
        accept4(listening, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      // For want of descriptors or memory. The next sweep may find some; until
      // then the kernel keeps the connection.
      LogSampled(LogLevel::kWarn, "accept_failed", "",
                 {{"error", std::strerror(errno)}});
      Sweep(SteadyNow());
      absl::SleepFor(absl::Milliseconds(50));
      return;
    }
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    std::shared_ptr<Connection> connection = Connection::Of(fd);
    // Of a flood that is over thousands may be left.
    if (connection->HasHungUp()) {
      close(fd);
      continue;
    }
    {
      absl::MutexLock lock(&mutex_);
      if (entries_.size() >= limits_.connections) ForgetClosed();
      if (entries_.size() >= limits_.connections && !MakeRoom()) {
        ++dropped_;
        close(fd);
        continue;
      }
      // The name may still be that of one which gRPC has closed meanwhile. Over
      // unix sockets all have the same.
      if (connection->countable()) named_[connection->name()] = connection;
      entries_.push_back({connection, 0, SteadyNow()});
    }
    GrpcAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = listening;
    parameters.fd = fd;
    to_->HandleNewConnection(&parameters);
  }
}

bool Acceptor::MakeRoom() {
  absl::flat_hash_map<std::string_view, size_t> by_host;
  for (const Entry& entry : entries_) ++by_host[entry.connection->host()];
  const absl::Time now = SteadyNow();
  const Connection* victim = nullptr;
  // Those that never had a call first, then those of the host that has most,
  // then whoever has been idle longest.
  const auto rank = [&](const Connection& c) {
    return std::tuple(!c.used(), by_host[c.host()], now - c.idle_since());
  };
  for (const Entry& entry : entries_) {
    const Connection& c = *entry.connection;
    const absl::Duration least = c.used() ? kIdle : kNeverUsed;
    if (c.calls() != 0 || now - c.idle_since() < least) continue;
    if (victim == nullptr || rank(c) > rank(*victim)) victim = &c;
  }
  if (victim == nullptr) return false;
  ++dropped_;
  victim->Shut();
  // gRPC closes it in a moment; it is no connection any more.
  if (const auto it = named_.find(victim->name());
      it != named_.end() && it->second.get() == victim) {
    named_.erase(it);
  }
  std::erase_if(entries_, [&](const Entry& entry) {
    return entry.connection.get() == victim;
  });
  return true;
}

void Acceptor::Sweep(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  for (Entry& entry : entries_) {
    const auto sent = entry.connection->Sent();
    if (!sent || sent->waiting == 0 || sent->taken != entry.taken) {
      entry.taken = sent ? sent->taken : 0;
      entry.moved = now;
    } else if (now - entry.moved > limits_.max_stuck) {
      Log(LogLevel::kInfo, "connection_stuck",
          {{"peer", entry.connection->name()}, {"bytes", sent->waiting}});
      entry.connection->Shut();
    }
  }
  ForgetClosed();
}

size_t Acceptor::EndAll() {
  absl::MutexLock lock(&mutex_);
  ForgetClosed();
  for (const Entry& entry : entries_) entry.connection->Shut();
  return entries_.size();
}

void Acceptor::ForgetClosed() {
  std::erase_if(entries_, [&](const Entry& entry) {
    if (entry.connection->Open()) return false;
    const auto it = named_.find(entry.connection->name());
    if (it != named_.end() && it->second == entry.connection) named_.erase(it);
    return true;
  });
}

std::shared_ptr<Connection> Acceptor::Find(std::string_view peer) const {
  absl::MutexLock lock(&mutex_);
  const auto it = named_.find(PeerName(peer));
  return it == named_.end() ? unknown_ : it->second;
}

size_t Acceptor::size() const {
  absl::MutexLock lock(&mutex_);
  return entries_.size();
}

}  // namespace quantd
