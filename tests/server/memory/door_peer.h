// A client of the memory socket that can send arbitrary bytes and descriptors.
#ifndef QUANTD_TESTS_SERVER_MEMORY_DOOR_PEER_H_
#define QUANTD_TESTS_SERVER_MEMORY_DOOR_PEER_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "proto/memory/offer.h"
#include "server/memory/regions.h"
#include "tests/testing/loopback.h"

namespace quantd {

using wire::Offer;
using wire::OfferAnswer;
using wire::OfferBytes;
using wire::OfferReply;
using wire::RegionKind;

inline constexpr size_t kPage = 4096;
inline constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

// Makes a memfd of `bytes` with pages for the first `populated` bytes.
inline Descriptor Memfd(size_t bytes, size_t populated, int seals = kSeals,
                        unsigned flags = 0) {
  Descriptor memfd(
      memfd_create("door", MFD_CLOEXEC | MFD_ALLOW_SEALING | flags));
  EXPECT_EQ(ftruncate(memfd.get(), static_cast<off_t>(bytes)), 0);
  if (populated != 0) {
    EXPECT_EQ(fallocate(memfd.get(), 0, 0, static_cast<off_t>(populated)), 0);
  }
  if (seals != 0) {
    EXPECT_EQ(fcntl(memfd.get(), F_ADD_SEALS, seals), 0);
  }
  return memfd;
}

inline bool SendWith(int socket, absl::Span<const std::byte> bytes,
                     const std::vector<int>& descriptors) {
  iovec whole = {const_cast<std::byte*>(bytes.data()), bytes.size()};
  std::vector<char> control(CMSG_SPACE(sizeof(int) * descriptors.size()));
  msghdr message = {};
  message.msg_iov = &whole;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int) * descriptors.size());
    std::memcpy(CMSG_DATA(part), descriptors.data(),
                sizeof(int) * descriptors.size());
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

// A TCP connection whose last close() takes a minute, because SO_LINGER is set
// and its peer does not read.
class Lingering {
 public:
  Lingering() {
    const linger minute = {1, 60};
    EXPECT_EQ(setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &minute,
                         sizeof(minute)),
              0);
    const std::vector<char> zeros(1 << 20);
    while (send(socket_.get(), zeros.data(), zeros.size(), MSG_DONTWAIT) > 0) {
    }
  }
  // Returns the local end. May be called once.
  Descriptor Leave() { return std::move(socket_); }

 private:
  LoopbackListener listener_{1};
  Descriptor socket_{DialLoopback(listener_.target())};
};

// A client with a connection to the memory socket.
class Peer {
 public:
  explicit Peer(const std::string& path)
      : socket_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(connect(socket_.get(), reinterpret_cast<sockaddr*>(&address),
                      sizeof(address)),
              0);
    const timeval wait = {30, 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
  }

  bool Send(absl::Span<const std::byte> bytes,
            const std::vector<int>& descriptors) {
    return SendWith(socket_.get(), bytes, descriptors);
  }
  // Offers the descriptor as a memfd and closes it, so that the server holds
  // the last reference.
  void OfferAndLeave(Descriptor what) {
    const OfferBytes bytes =
        wire::Write(Offer{RegionKind::kMemfd, false, kPage});
    const absl::Span<const std::byte> all = bytes;
    EXPECT_TRUE(Send(all.first(64), {what.get()}));
    what = Descriptor();
    EXPECT_TRUE(Send(all.subspan(64), {}));
  }
  // Receives a reply, or nullopt if the connection was closed.
  std::optional<OfferReply> Receive() {
    OfferBytes bytes;
    if (recv(socket_.get(), bytes.data(), bytes.size(), MSG_WAITALL) !=
        static_cast<ssize_t>(bytes.size())) {
      return std::nullopt;
    }
    return wire::ReadOfferReply(bytes);
  }
  OfferAnswer Ask(const Offer& offer, const std::vector<int>& descriptors) {
    EXPECT_TRUE(Send(wire::Write(offer), descriptors));
    const auto reply = Receive();
    EXPECT_TRUE(reply.has_value());
    if (!reply) return OfferAnswer::kMalformed;
    EXPECT_EQ(reply->text.empty(), reply->answer == OfferAnswer::kTaken);
    if (!reply->region.empty()) name = reply->region;
    return reply->answer;
  }
  OfferAnswer Offered(const Descriptor& memfd, uint64_t size,
                      bool read_only = false) {
    return Ask({RegionKind::kMemfd, read_only, size}, {memfd.get()});
  }
  bool Closed() { return !Receive().has_value(); }
  void HalfClose() { shutdown(socket_.get(), SHUT_WR); }
  int socket() const { return socket_.get(); }

  std::string name;

 private:
  static int socket(int domain, int type, int protocol) {
    return ::socket(domain, type, protocol);
  }
  Descriptor socket_;
};

}  // namespace quantd

#endif  // QUANTD_TESTS_SERVER_MEMORY_DOOR_PEER_H_
