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
#include <utility>

#include "server/gate/steady_time.h"
#include "server/observe/log.h"

namespace quantd {
namespace {

// Connections that the kernel keeps until they are accepted. With fewer a job
// of a thousand clients that starts at once sees refused connections.
constexpr int kBacklog = 1024;
// How often peers are looked at. Without it one that takes nothing keeps its
// reply's memory for ever.
constexpr int kSweepMs = 200;
// Descriptors that are no connections: files, queues, devices, metrics. Without
// them connections take what logs and certificates need.
constexpr size_t kOwnDescriptors = 64;

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
  thread_ = std::thread([this] { Run(); });
}

void Acceptor::Stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(stop_, &one, sizeof(one));
  thread_.join();
  // The kernel turns away those who still knock.
  sockets_.Close();
}

void Acceptor::Run() {
  std::vector<pollfd> polled = {{stop_, POLLIN, 0}};
  for (const int fd : sockets_.descriptors()) polled.push_back({fd, POLLIN, 0});
  absl::Time swept = SteadyNow();
  while (true) {
    poll(polled.data(), polled.size(), kSweepMs);
    if (polled[0].revents != 0) return;
    for (size_t i = 1; i < polled.size(); ++i) {
      if (polled[i].revents != 0) Accept(polled[i].fd);
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
    // There are no descriptors or there is no memory. The kernel keeps the
    // connection until there are; without a pause this would use up a core.
    LogSampled(LogLevel::kWarn, "accept_failed", "",
               {{"error", std::strerror(errno)}});
    pollfd stop = {stop_, POLLIN, 0};
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
    // The name may still be that of one which gRPC has closed meanwhile. Over
    // unix sockets all have the same.
    if (connection->countable()) named_[connection->name()] = connection;
    entries_.push_back({connection, 0, now});
  }
  GrpcAcceptor::NewConnectionParameters parameters;
  parameters.listener_fd = listening;
  parameters.fd = fd;
  to_->HandleNewConnection(&parameters);
}

bool Acceptor::MakeRoom(absl::Time now) {
  ForgetClosed();
  if (entries_.size() < limits_.connections) return true;
  std::shared_ptr<Connection> idle;
  for (const Entry& entry : entries_) {
    const auto& c = entry.connection;
    if (c->calls() != 0 || now - c->idle_since() < limits_.idle) continue;
    if (!idle || c->idle_since() < idle->idle_since()) idle = c;
  }
  if (!idle) return false;
  idle->Shut();
  // gRPC closes it in a moment; it is no connection any more.
  Forget(*idle);
  std::erase_if(entries_, [&](const Entry& e) { return e.connection == idle; });
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
      entry.moved = now;
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
    Forget(*entry.connection);
    return true;
  });
}

void Acceptor::Forget(const Connection& connection) {
  const auto it = named_.find(connection.name());
  if (it != named_.end() && it->second.get() == &connection) named_.erase(it);
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
