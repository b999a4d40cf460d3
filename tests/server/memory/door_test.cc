// Tests of the memory socket: which offers it accepts, for how long, and from
// which users.
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "server/config/options.h"
#include "tests/server/memory/door_fixture.h"

namespace quantd {
namespace {

TEST_F(Door, MapsASealedMemfdWhileItsConnectionLives) {
  Open();
  {
    const Descriptor memfd = Memfd(2 * kPage, 2 * kPage);
    Peer peer(path_);
    ASSERT_EQ(peer.Offered(memfd, 2 * kPage), OfferAnswer::kTaken);
    EXPECT_EQ(peer.name.size(), wire::kRegionNameBytes);
    EXPECT_EQ(door_->use().bytes, 2 * kPage);
    auto region = regions_.Find(peer.name);
    ASSERT_NE(region, nullptr);
    EXPECT_TRUE(region->writable());
    // Client and server see the same pages.
    ASSERT_EQ(pwrite(memfd.get(), "x", 1, kPage), 1);
    EXPECT_EQ(region->data()[kPage], std::byte{'x'});
    region->data()[5] = std::byte{'y'};
    char byte = 0;
    ASSERT_EQ(pread(memfd.get(), &byte, 1, 5), 1);
    EXPECT_EQ(byte, 'y');
    // Another region of this connection has another name.
    const std::string first = peer.name;
    ASSERT_EQ(peer.Offered(memfd, 2 * kPage), OfferAnswer::kTaken);
    EXPECT_NE(peer.name, first);
    // A region in use outlives its name. The server closes the connection when
    // the use ends.
    peer.HalfClose();
    EXPECT_TRUE(
        Eventually([&] { return regions_.Find(peer.name) == nullptr; }));
    EXPECT_EQ(regions_.Find(first), nullptr);
    EXPECT_TRUE(Eventually([&] { return door_->use().regions == 1; }));
    char end = 0;
    EXPECT_EQ(recv(peer.socket(), &end, 1, MSG_DONTWAIT), -1);
    region.reset();
    EXPECT_TRUE(peer.Closed());
    EXPECT_EQ(door_->use().regions, 0u);
  }
  EXPECT_EQ(door_->refusals(), 0u);
}

TEST_F(Door, SupportsReadOnlyRegions) {
  Open();
  const auto offered = [&](const Descriptor& memfd, bool read_only) {
    Peer peer(path_);
    EXPECT_EQ(peer.Offered(memfd, kPage, read_only), OfferAnswer::kTaken);
    const auto region = regions_.Find(peer.name);
    return region != nullptr && region->writable();
  };
  EXPECT_TRUE(offered(Memfd(kPage, kPage), false));
  EXPECT_FALSE(offered(Memfd(kPage, kPage), true));
  // 0x10 is F_SEAL_FUTURE_WRITE.
  EXPECT_FALSE(offered(Memfd(kPage, kPage, kSeals | 0x10), false));
  // A file opened for reading can only be mapped for reading.
  const Descriptor memfd = Memfd(kPage, kPage);
  const Descriptor readable(
      open(("/proc/self/fd/" + std::to_string(memfd.get())).c_str(),
           O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(Peer(path_).Offered(readable, kPage), OfferAnswer::kNotMapped);
  EXPECT_FALSE(offered(readable, true));
}

TEST_F(Door, RemovedPagesReadAsZerosWithoutAFault) {
  Open();
  const Descriptor memfd = Memfd(8 * kPage, 8 * kPage);
  Peer peer(path_);
  ASSERT_EQ(peer.Offered(memfd, 8 * kPage), OfferAnswer::kTaken);
  ASSERT_EQ(pwrite(memfd.get(), "x", 1, kPage), 1);
  EXPECT_NE(ftruncate(memfd.get(), kPage), 0);
  ASSERT_EQ(fallocate(memfd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      0, 8 * kPage),
            0);
  const auto region = regions_.Find(peer.name);
  for (size_t at = 0; at < region->size(); at += 64) {
    EXPECT_EQ(region->data()[at], std::byte{0});
    region->data()[at] = std::byte{1};
  }
}

TEST_F(Door, SlowClosesDoNotDelayOtherClients) {
  Open();
  const Descriptor memfd = Memfd(kPage, kPage);
  const auto offered_last = [&](Descriptor what) {
    Peer peer(path_);
    peer.OfferAndLeave(std::move(what));
    EXPECT_TRUE(peer.Receive().has_value());
    const absl::Time start = absl::Now();
    EXPECT_EQ(Peer(path_).Offered(memfd, kPage), OfferAnswer::kTaken);
    EXPECT_LT(absl::Now() - start, absl::Seconds(10));
  };
  Lingering plain;
  offered_last(plain.Leave());
  // The slow descriptor is unread inside another socket, so that the server
  // cannot set an option on it.
  Lingering inner;
  std::array<int, 2> pair = {};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
  const Descriptor near(pair[0]);
  Descriptor far(pair[1]);
  {
    const Descriptor sent = inner.Leave();
    ASSERT_TRUE(SendWith(near.get(), OfferBytes{}, {sent.get()}));
  }
  offered_last(std::move(far));
  const absl::Time start = absl::Now();
  door_.reset();
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

TEST_F(Door, EnforcesQuotasOfBytesAndRegions) {
  limits_.connection_regions = 3;
  limits_.regions = 5;
  Open();
  const Descriptor large = Memfd(32 * kPage, 32 * kPage);
  const Descriptor page = Memfd(kPage, kPage);
  {
    Peer one(path_);
    EXPECT_EQ(one.Offered(large, 32 * kPage), OfferAnswer::kTaken);
    EXPECT_EQ(one.Offered(page, kPage), OfferAnswer::kTooMuch);
    Peer two(path_);
    EXPECT_EQ(two.Offered(large, 32 * kPage), OfferAnswer::kTaken);
    EXPECT_EQ(Peer(path_).Offered(page, kPage), OfferAnswer::kTooMuch);
  }
  EXPECT_TRUE(Eventually([&] { return door_->use().regions == 0; }));
  Peer one(path_);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(one.Offered(page, kPage), OfferAnswer::kTaken);
  }
  EXPECT_EQ(one.Offered(page, kPage), OfferAnswer::kTooMuch);
  Peer two(path_);
  EXPECT_EQ(two.Offered(page, kPage), OfferAnswer::kTaken);
  EXPECT_EQ(two.Offered(page, kPage), OfferAnswer::kTaken);
  EXPECT_EQ(two.Offered(page, kPage), OfferAnswer::kTooMuch);
}

TEST_F(Door, SupportsAThousandRegions) {
  limits_.bytes = limits_.connection_bytes = size_t{1} << 30;
  limits_.connection_regions = 1000;
  Open();
  const Descriptor page = Memfd(kPage, kPage);
  Peer peer(path_);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(peer.Offered(page, kPage), OfferAnswer::kTaken);
  }
  EXPECT_EQ(peer.Offered(page, kPage), OfferAnswer::kTooMuch);
  EXPECT_EQ(door_->use().regions, 1000u);
}

TEST_F(Door, ClosesSilentConnections) {
  limits_.patience = absl::Milliseconds(200);
  Open();
  Peer silent(path_);
  Peer half(path_);
  const Descriptor memfd = Memfd(kPage, kPage);
  const OfferBytes bytes = wire::Write(Offer{RegionKind::kMemfd, false, kPage});
  ASSERT_TRUE(half.Send(absl::MakeConstSpan(bytes).first(64), {memfd.get()}));
  Peer good(path_);
  EXPECT_EQ(good.Offered(memfd, kPage), OfferAnswer::kTaken);
  EXPECT_TRUE(silent.Closed());
  EXPECT_TRUE(half.Closed());
  absl::SleepFor(absl::Milliseconds(400));
  EXPECT_NE(regions_.Find(good.name), nullptr);
}

TEST_F(Door, LimitsItsConnections) {
  limits_.connections = 4;
  Open();
  {
    std::vector<std::unique_ptr<Peer>> peers;
    for (int i = 0; i < 4; ++i) peers.push_back(std::make_unique<Peer>(path_));
    Peer more(path_);
    EXPECT_EQ(more.Receive()->answer, OfferAnswer::kConnections);
    EXPECT_TRUE(more.Closed());
  }
  const Descriptor memfd = Memfd(kPage, kPage);
  EXPECT_TRUE(Eventually([&] {
    return Peer(path_).Offered(memfd, kPage) == OfferAnswer::kTaken;
  }));
}

TEST_F(Door, RefusesUsersThatAreNotPeers) {
  Open({geteuid() + 1});
  Peer peer(path_);
  EXPECT_EQ(peer.Receive()->answer, OfferAnswer::kPeer);
  EXPECT_TRUE(peer.Closed());
  struct stat status = {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0666u);
}

TEST_F(Door, OnlyTheOwnerCanOpenTheSocket) {
  Open();
  struct stat status = {};
  ASSERT_EQ(stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_THAT(MemoryDoor::Open(path_, {}, {}, &regions_),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(Door, FindsUsersByNameAndNumber) {
  EXPECT_EQ(*FindMemoryPeers({}), std::vector<uid_t>{geteuid()});
  EXPECT_EQ(*FindMemoryPeers({"root", "1234"}), (std::vector<uid_t>{0, 1234}));
  EXPECT_THAT(FindMemoryPeers({"no such user"}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

// In a user namespace all unmapped users share one number.
TEST(MemoryPeersTest, RefusesTheUserNobodyInAUserNamespace) {
  const pid_t child = fork();
  if (child == 0) {
    // This test may itself run in such a namespace.
    std::ifstream map("/proc/self/uid_map");
    const std::string all((std::istreambuf_iterator<char>(map)), {});
    const bool maps_all = all.find(" 4294967295") != std::string::npos;
    if (maps_all != FindMemoryPeers({"65534"}).ok()) _exit(2);
    if (unshare(CLONE_NEWUSER) != 0) _exit(77);
    // The new namespace maps no user, so the child itself runs as nobody.
    const bool refused =
        !FindMemoryPeers({"65534"}).ok() && !FindMemoryPeers({}).ok();
    _exit(refused && FindMemoryPeers({"1234"}).ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no user namespaces here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(Door, EndsFloodsFromPeersThatReadNoReplies) {
  Open();
  const Descriptor memfd = Memfd(kPage, kPage);
  const OfferBytes bytes =
      wire::Write(Offer{static_cast<RegionKind>(9), false, kPage});
  Peer peer(path_);
  int sent = 0;
  while (sent < 100'000 && peer.Send(bytes, {memfd.get()})) ++sent;
  EXPECT_LT(sent, 100'000);
  EXPECT_EQ(Peer(path_).Offered(memfd, kPage), OfferAnswer::kTaken);
}

}  // namespace
}  // namespace quantd
