#include "server/memory/door.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include "fmt/format.h"
#include "server/gate/steady_time.h"
#include "server/memory/descriptor.h"

namespace quantd {
namespace {

using wire::OfferAnswer;
using wire::OfferReply;
using wire::Refuse;

// The kernel's limit for one message.
constexpr size_t kMostDescriptors = 253;
// Interval of looks at silent connections, and the pause while descriptors are
// used up or too many are being closed.
constexpr std::chrono::milliseconds kTick{100};

// Reads at most `room` bytes and takes every descriptor that comes with them,
// so that none stays open by accident. Returns what recvmsg does, or -2 if
// there were more descriptors than fit.
ssize_t ReceiveWith(int socket, std::byte* to, size_t room,
                    std::vector<Descriptor>* descriptors) {
  iovec bytes = {to, room};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMostDescriptors)>
      control;
  msghdr message = {};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (n < 0) return -1;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(fd));
      // A file with seals is memory, and closes without delay; all others are
      // closed on threads of their own.
      descriptors->emplace_back(fd, fcntl(fd, F_GET_SEALS) < 0);
    }
  }
  return (message.msg_flags & MSG_CTRUNC) != 0 ? -2 : n;
}

}  // namespace

struct MemoryDoor::Connection {
  // Shared with the regions that it brought.
  std::shared_ptr<const Descriptor> socket;
  std::optional<absl::Time> until;  // set until its first offer
  // The offer being received.
  wire::OfferBytes offer;
  size_t received = 0;
  std::vector<Descriptor> descriptors;

  std::vector<std::string> names;  // names of its regions and events
  size_t bytes = 0;
};

absl::StatusOr<std::unique_ptr<MemoryDoor>> MemoryDoor::Open(
    const std::string& path, std::vector<uid_t> peers, const DoorLimits& limits,
    Regions* regions) {
  auto sockets = ListenSockets::Open("unix:" + path);
  if (!sockets.ok()) return sockets.status();
  // The socket's permissions admit everybody if other users are named, so each
  // peer's user is checked.
  const bool others = std::any_of(peers.begin(), peers.end(),
                                  [](uid_t user) { return user != geteuid(); });
  if (chmod(path.c_str(), others ? 0666 : 0600) != 0) {
    return absl::UnavailableError(fmt::format(
        "cannot set permissions of {}: {}", path, std::strerror(errno)));
  }
  auto door = std::unique_ptr<MemoryDoor>(
      new MemoryDoor(*std::move(sockets), std::move(peers), limits, regions));
  door->thread_ = std::thread([self = door.get()] { self->Run(); });
  return door;
}

MemoryDoor::MemoryDoor(ListenSockets sockets, std::vector<uid_t> peers,
                       const DoorLimits& limits, Regions* regions)
    : sockets_(std::move(sockets)),
      peers_(std::move(peers)),
      limits_(limits),
      regions_(regions) {}

MemoryDoor::~MemoryDoor() {
  stopping_ = true;
  // Shutting the socket down wakes the thread.
  shutdown(sockets_.descriptors().front(), SHUT_RDWR);
  if (thread_.joinable()) thread_.join();
}

void MemoryDoor::Run() {
  std::vector<pollfd> polled;
  while (!stopping_) {
    const bool accepts = !Descriptor::ClosingIsBehind();
    polled = {{sockets_.descriptors().front(),
               static_cast<short>(accepts ? POLLIN : 0), 0}};
    bool looks_again = !accepts;
    for (const Connection& c : connections_) {
      polled.push_back({c.socket->get(), POLLIN, 0});
      looks_again |= c.until.has_value();
    }
    poll(polled.data(), polled.size(), looks_again ? kTick.count() : -1);
    size_t i = 0;
    connections_.remove_if([&](Connection& c) {
      const bool ready = polled[++i].revents != 0;
      const bool over =
          (ready && !Receive(c)) || (c.until && SteadyNow() >= *c.until);
      if (over) Forget(c);
      return over;
    });
    if (accepts) Accept();
  }
  for (const Connection& c : connections_) Forget(c);
  connections_.clear();
}

void MemoryDoor::Accept() {
  const int fd = accept4(sockets_.descriptors().front(), nullptr, nullptr,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd < 0) {
    // Pending connections would wake the loop again at once, for nothing.
    if (errno == EMFILE || errno == ENFILE) {
      std::this_thread::sleep_for(kTick);
    }
    return;
  }
  Connection c;
  // Closed on a thread of its own, with all descriptors left unread in it.
  c.socket = std::make_shared<const Descriptor>(fd, /*apart=*/true);
  c.until = SteadyNow() + limits_.patience;
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
      std::ranges::find(peers_, peer.uid) == peers_.end()) {
    Send(c, Refuse(OfferAnswer::kPeer,
                   "expected a process of a user named by --memory-peers"));
  } else if (connections_.size() >= limits_.connections) {
    Send(c, Refuse(OfferAnswer::kConnections,
                   fmt::format("expected at most {} connections",
                               limits_.connections)));
  } else {
    connections_.push_back(std::move(c));
  }
}

bool MemoryDoor::Receive(Connection& c) {
  if (Descriptor::ClosingIsBehind()) return false;
  const ssize_t n = ReceiveWith(c.socket->get(), c.offer.data() + c.received,
                                c.offer.size() - c.received, &c.descriptors);
  if (n == -1) return errno == EAGAIN || errno == EINTR;
  // A peer that sends more than one descriptor is answered once, whatever else
  // it sends.
  if (n == -2 || c.descriptors.size() > 1) {
    Send(c, Refuse(OfferAnswer::kDescriptors,
                   "expected exactly one descriptor, got more"));
    return false;
  }
  if (n == 0) return false;
  c.received += static_cast<size_t>(n);
  if (c.received < c.offer.size()) return true;
  const OfferReply reply = Take(c);
  c.received = 0;
  c.descriptors.clear();
  // After a malformed message the next one cannot be found.
  return Send(c, reply) && reply.answer != OfferAnswer::kMalformed;
}

OfferReply MemoryDoor::Take(Connection& c) {
  const auto offer = wire::ReadOffer(c.offer);
  if (!offer) {
    return Refuse(OfferAnswer::kMalformed, "expected the message of an offer");
  }
  if (!wire::IsOfDevice(offer->kind) &&
      offer->kind != wire::RegionKind::kMemfd) {
    return Refuse(OfferAnswer::kKind,
                  "expected a memfd, CUDA memory or an event of a GPU, got "
                  "another kind");
  }
  if (c.descriptors.empty() == wire::BringsDescriptor(offer->kind)) {
    return Refuse(OfferAnswer::kDescriptors,
                  c.descriptors.empty()
                      ? "expected exactly one descriptor, got none"
                      : "expected no descriptor, got one");
  }
  if (c.names.size() >= limits_.connection_regions ||
      use_->regions + use_->events >= limits_.regions) {
    return Refuse(OfferAnswer::kTooMuch,
                  fmt::format("expected at most {} regions and events of a "
                              "connection, {} in all",
                              limits_.connection_regions, limits_.regions));
  }
  // A GPU's memory uses none of the host's.
  const uint64_t bytes = wire::IsOfDevice(offer->kind) ? 0 : offer->size;
  // By subtraction: the client chose the size, and a sum may overflow.
  const size_t all =
      limits_.bytes - std::min(use_->bytes.load(), limits_.bytes);
  const size_t own =
      limits_.connection_bytes - std::min(c.bytes, limits_.connection_bytes);
  if (bytes > std::min(all, own)) {
    return Refuse(OfferAnswer::kTooMuch,
                  fmt::format("expected at most {} bytes more ({} in all), got "
                              "{}",
                              std::min(all, own), limits_.bytes, bytes));
  }
  Descriptor brought =
      c.descriptors.empty() ? Descriptor() : std::move(c.descriptors.front());
  auto taken = TakeOffer(*offer, std::move(brought), {c.socket, use_});
  if (auto* refusal = std::get_if<OfferReply>(&taken)) return *refusal;
  std::string name = regions_->Add(std::get<Shared>(std::move(taken)));
  if (name.empty()) {
    return Refuse(OfferAnswer::kNotMapped, "no random numbers for a name");
  }
  c.names.push_back(name);
  c.bytes += bytes;
  c.until.reset();
  return {OfferAnswer::kTaken, std::move(name), ""};
}

bool MemoryDoor::Send(const Connection& c, const OfferReply& reply) {
  if (reply.answer != OfferAnswer::kTaken) ++refusals_;
  const wire::OfferBytes bytes = wire::Write(reply);
  // A peer that lets replies pile up is disconnected.
  return send(c.socket->get(), bytes.data(), bytes.size(),
              MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

void MemoryDoor::Forget(const Connection& c) {
  for (const std::string& name : c.names) regions_->Remove(name);
}

}  // namespace quantd
