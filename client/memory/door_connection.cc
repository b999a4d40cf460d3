#include "client/memory/door_connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "fmt/format.h"

namespace quantd::client {
namespace {

using std::chrono::milliseconds;
using wire::OfferAnswer;

absl::Status Unavailable(const std::string& path, std::string_view why) {
  return absl::UnavailableError(
      fmt::format("cannot share memory through {}: {}", path, why));
}

// Returns a connected socket with timeouts, or -1 with errno set.
int Connect(const DoorAddress& door) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (door.path.size() >= sizeof(address.sun_path)) {
    errno = ENAMETOOLONG;
    return -1;
  }
  door.path.copy(address.sun_path, door.path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  // A timeout of zero would mean no timeout.
  const auto patience = std::max<int64_t>(door.patience.count(), 1);
  const timeval wait = {patience / 1000, patience % 1000 * 1000};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address),
              sizeof(address)) == 0) {
    return fd;
  }
  const int why = errno;
  close(fd);
  errno = why;
  return -1;
}

bool SendOffer(int socket, const wire::Offer& offer, int descriptor) {
  wire::OfferBytes bytes = wire::Write(offer);
  iovec whole = {bytes.data(), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control = {};
  msghdr message = {};
  message.msg_iov = &whole;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(part), &descriptor, sizeof(descriptor));
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

absl::Status Refusal(const wire::OfferReply& reply) {
  const std::string text =
      fmt::format("the server does not share this memory: {}", reply.text);
  switch (reply.answer) {
    case OfferAnswer::kTooMuch:
    case OfferAnswer::kConnections:
      return absl::ResourceExhaustedError(text);
    case OfferAnswer::kPeer:
      return absl::PermissionDeniedError(text);
    default:
      return absl::InvalidArgumentError(text);
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<DoorConnection>> DoorConnection::Share(
    const DoorAddress& door, const wire::Offer& offer, int descriptor) {
  const int socket = Connect(door);
  if (socket < 0) return Unavailable(door.path, std::strerror(errno));
  absl::Cleanup close_socket = [socket] { close(socket); };
  // A server that refuses the connection may not read the offer. Its answer can
  // still be read.
  const bool sent = SendOffer(socket, offer, descriptor);
  const int why = errno;
  wire::OfferBytes bytes;
  const ssize_t n = recv(socket, bytes.data(), bytes.size(), MSG_WAITALL);
  if (n < 0) return Unavailable(door.path, std::strerror(sent ? errno : why));
  const auto reply =
      wire::ReadOfferReply(absl::MakeSpan(bytes).first(static_cast<size_t>(n)));
  if (!reply)
    return Unavailable(door.path, "the answer is not from a quantd server");
  if (reply->answer != OfferAnswer::kTaken) return Refusal(*reply);
  std::move(close_socket).Cancel();
  return std::shared_ptr<DoorConnection>(
      new DoorConnection(socket, reply->region));
}

DoorConnection::~DoorConnection() { close(socket_); }

bool DoorConnection::End(milliseconds patience) {
  shutdown(socket_, SHUT_WR);
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + patience;
  while (true) {
    const auto left =
        std::chrono::ceil<milliseconds>(until - Clock::now()).count();
    if (left <= 0) return false;
    pollfd end = {socket_, POLLIN, 0};
    if (poll(&end, 1, static_cast<int>(left)) < 0 && errno != EINTR) {
      return false;
    }
    // The server sends nothing after its answer to the offer, so this is the
    // end of the connection.
    if (end.revents != 0) return true;
  }
}

}  // namespace quantd::client
