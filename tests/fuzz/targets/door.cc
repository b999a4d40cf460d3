// Fuzzes the memory socket: offers with and without descriptors, and the
// replies that a client reads. An input is a sequence of pieces: a byte that
// chooses descriptors, a byte for the length, and the bytes.
#include "server/memory/door.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/un.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "proto/memory/offer.h"
#include "server/memory/regions.h"
#include "tests/fuzz/targets/loopback.h"
#include "tests/fuzz/targets/target.h"

namespace quantd {
namespace {

using fuzz::Check;

constexpr size_t kBytes = 2 * 4096;

int Memfd(size_t bytes, bool populated, int seals) {
  const int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  Check(fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes)) == 0, "no memfd");
  if (populated) {
    const std::string zeros(bytes, '\0');
    Check(pwrite(fd, zeros.data(), bytes, 0) == static_cast<ssize_t>(bytes),
          "pwrite");
  }
  fcntl(fd, F_ADD_SEALS, seals);
  return fd;
}

// Returns the sets of descriptors that an input may send: valid memory, and
// other files.
const std::vector<std::vector<int>>& Descriptors() {
  static const std::vector<std::vector<int>> rows = [] {
    constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    const int good = Memfd(kBytes, true, kSeals);
    return std::vector<std::vector<int>>{
        {good},
        {},
        {good, good},
        {Memfd(kBytes, true, 0)},
        {Memfd(kBytes, false, kSeals)},
        {Memfd(0, false, kSeals)},
        {open("/dev/null", O_RDWR | O_CLOEXEC)},
        {Memfd(kBytes, true, kSeals | F_SEAL_WRITE)}};
  }();
  return rows;
}

struct Served {
  Served() {
    std::string name = "/tmp/quantd-fuzz.XXXXXX";
    Check(mkdtemp(name.data()) != nullptr, "mkdtemp");
    folder = name;
    const DoorLimits limits = {.bytes = 4 * kBytes,
                               .connection_bytes = 3 * kBytes,
                               .regions = 4,
                               .connection_regions = 3,
                               .connections = 4};
    auto opened =
        MemoryDoor::Open(folder + "/door", {geteuid()}, limits, &regions);
    Check(opened.ok(), opened.status().ToString());
    door = *std::move(opened);
    auto closed =
        MemoryDoor::Open(folder + "/closed", {geteuid() + 1}, limits, &regions);
    Check(closed.ok(), closed.status().ToString());
    stranger = *std::move(closed);
    Check(!MemoryDoor::Open(folder + "/none/door", {}, limits, &regions).ok(),
          "a memory socket in a missing folder");
  }
  ~Served() {
    door.reset();
    stranger.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  sockaddr_un Address(const std::string& name) const {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    (folder + "/" + name).copy(address.sun_path, sizeof(address.sun_path) - 1);
    return address;
  }

  std::string folder;
  Regions regions;
  std::unique_ptr<MemoryDoor> door;
  // A memory socket that refuses this user, and must reply with the refusal
  // alone.
  std::unique_ptr<MemoryDoor> stranger;
};

void SendWith(int fd, std::string_view bytes, const std::vector<int>& fds) {
  if (bytes.empty()) return;
  iovec part = {const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(2 * sizeof(int))> control = {};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  }
  // The server no longer reads from a refused peer, so errors are ignored.
  sendmsg(fd, &message, MSG_NOSIGNAL);
}

void Judge(Served& served, const std::string& received) {
  for (size_t at = 0; at + wire::kOfferBytes <= received.size();
       at += wire::kOfferBytes) {
    const auto reply = wire::ReadOfferReply(
        {reinterpret_cast<const std::byte*>(received.data() + at),
         wire::kOfferBytes});
    Check(reply.has_value(), "no reply");
    if (reply->answer == wire::OfferAnswer::kTaken) {
      Check(reply->region.size() == wire::kRegionNameBytes, "no name");
    } else {
      Check(!reply->text.empty(), "a refusal without a message");
    }
  }
  Check(served.door->use().bytes <= served.door->limits().bytes,
        "more than the limit");
}

}  // namespace
}  // namespace quantd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using quantd::fuzz::Check;
  static quantd::Served served;
  // Parses the input as the bytes that a client reads from a server.
  const absl::Span<const std::byte> all(
      reinterpret_cast<const std::byte*>(data), size);
  if (const auto reply = quantd::wire::ReadOfferReply(all)) {
    const auto again =
        quantd::wire::ReadOfferReply(quantd::wire::Write(*reply));
    // A text without an end may exceed the longest text that is written.
    Check(again && again->answer == reply->answer &&
              reply->text.substr(0, 103) == again->text,
          "another reply");
  }
  if (const auto offer = quantd::wire::ReadOffer(all)) {
    const auto again = quantd::wire::ReadOffer(quantd::wire::Write(*offer));
    Check(again && again->kind == offer->kind && again->size == offer->size,
          "another offer");
  }
  quantd::fuzz::Input input(data, size);
  static const sockaddr_un ours = served.Address("door");
  static const sockaddr_un another = served.Address("closed");
  // One of 32 sizes selects the socket that refuses this user, and one opens
  // further connections up to the limit.
  const sockaddr_un& address = size % 32 == 30 ? another : ours;
  std::list<quantd::fuzz::Socket> others;
  for (int i = 0; i < (size % 32 == 31 ? 4 : 0); ++i) {
    others.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
                        reinterpret_cast<const sockaddr*>(&address),
                        sizeof(address));
  }
  const quantd::fuzz::Socket socket(
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
      reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  for (int i = 0; i < 8 && !input.empty(); ++i) {
    const auto& rows = quantd::Descriptors();
    const auto& fds = rows[input.Byte() % rows.size()];
    quantd::SendWith(socket.fd(), input.Bytes(input.Byte()), fds);
  }
  shutdown(socket.fd(), SHUT_WR);
  quantd::Judge(served, socket.Receive(size_t{1} << 16));
  return 0;
}
