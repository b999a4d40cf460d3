// Tests of offers that the memory socket refuses, and of the error messages.
#include <algorithm>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/server/memory/door_fixture.h"

namespace quantd {
namespace {

TEST_F(Door, RefusesAnythingButAMemfd) {
  Open();
  std::ofstream(directory_ / "file") << std::string(kPage, 'x');
  int pipes[2];
  ASSERT_EQ(pipe2(pipes, O_CLOEXEC), 0);
  const Descriptor reading(pipes[0]);
  const Descriptor writing(pipes[1]);
  const std::vector<Descriptor> others = [&] {
    std::vector<Descriptor> list;
    const auto open_one = [&](const std::string& path, int flags) {
      list.emplace_back(open(path.c_str(), flags | O_CLOEXEC));
      EXPECT_GE(list.back().get(), 0) << path;
    };
    open_one(directory_ / "file", O_RDWR);
    open_one("/dev/zero", O_RDWR);
    open_one("/proc/self/mem", O_RDWR);
    open_one("/", O_RDONLY | O_DIRECTORY);
    open_one("/dev/shm", O_RDONLY | O_PATH);
    return list;
  }();
  for (const Descriptor& other : others) {
    EXPECT_EQ(Peer(path_).Offered(other, kPage), OfferAnswer::kNotMemfd);
  }
  for (const Descriptor* end : {&reading, &writing}) {
    EXPECT_EQ(Peer(path_).Offered(*end, kPage), OfferAnswer::kNotMemfd);
  }
  const Peer peer(path_);
  EXPECT_EQ(
      Peer(path_).Ask({RegionKind::kMemfd, false, kPage}, {peer.socket()}),
      OfferAnswer::kNotMemfd);
  // A memfd of huge pages, if the machine has any.
  if (const int huge =
          memfd_create("door", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
      huge >= 0) {
    const Descriptor memfd(huge);
    EXPECT_EQ(ftruncate(huge, 2 << 20), 0);
    EXPECT_EQ(fcntl(huge, F_ADD_SEALS, kSeals), 0);
    EXPECT_EQ(Peer(path_).Offered(memfd, kPage), OfferAnswer::kNotMemfd);
  }
  EXPECT_GT(door_->refusals(), 7u);
}

TEST_F(Door, RefusesMemoryThatItsOwnerCouldShrink) {
  Open();
  for (const int seals : {0, F_SEAL_GROW, F_SEAL_SHRINK, F_SEAL_SEAL}) {
    EXPECT_EQ(Peer(path_).Offered(Memfd(kPage, kPage, seals), kPage),
              OfferAnswer::kNotSealed);
  }
}

TEST_F(Door, RefusesInvalidSizes) {
  Open();
  const Descriptor memfd = Memfd(4 * kPage, 4 * kPage);
  for (const uint64_t size : {uint64_t{0}, uint64_t{1}, uint64_t{kPage},
                              uint64_t{3 * kPage}, uint64_t{5 * kPage}}) {
    EXPECT_EQ(Peer(path_).Offered(memfd, size), OfferAnswer::kSize) << size;
  }
  EXPECT_EQ(Peer(path_).Offered(Memfd(0, 0), 0), OfferAnswer::kSize);
  EXPECT_EQ(Peer(path_).Offered(Memfd(100, 100), 100), OfferAnswer::kSize);
  // Sizes slightly and far above the limit.
  for (const uint64_t size :
       {uint64_t{33 * kPage}, uint64_t{1} << 40, ~uint64_t{0}}) {
    EXPECT_EQ(Peer(path_).Offered(memfd, size), OfferAnswer::kTooMuch);
  }
  EXPECT_EQ(Peer(path_).Offered(Memfd(33 * kPage, 0), 33 * kPage),
            OfferAnswer::kTooMuch);
}

TEST_F(Door, RefusesMissingPages) {
  Open();
  EXPECT_EQ(Peer(path_).Offered(Memfd(8 * kPage, 0), 8 * kPage),
            OfferAnswer::kNotPopulated);
  EXPECT_EQ(Peer(path_).Offered(Memfd(8 * kPage, 7 * kPage), 8 * kPage),
            OfferAnswer::kNotPopulated);
  const Descriptor memfd = Memfd(8 * kPage, 8 * kPage);
  ASSERT_EQ(fallocate(memfd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                      kPage, kPage),
            0);
  EXPECT_EQ(Peer(path_).Offered(memfd, 8 * kPage), OfferAnswer::kNotPopulated);
}

TEST_F(Door, RequiresExactlyOneDescriptor) {
  Open();
  const Descriptor memfd = Memfd(kPage, kPage);
  const Offer offer = {RegionKind::kMemfd, false, kPage};
  EXPECT_EQ(Peer(path_).Ask(offer, {}), OfferAnswer::kDescriptors);
  EXPECT_EQ(Peer(path_).Ask(offer, {memfd.get(), memfd.get()}),
            OfferAnswer::kDescriptors);
  EXPECT_EQ(Peer(path_).Ask(offer, std::vector<int>(253, memfd.get())),
            OfferAnswer::kDescriptors);
  // Sends a descriptor with each half of the message.
  Peer halves(path_);
  const OfferBytes bytes = wire::Write(offer);
  const absl::Span<const std::byte> whole(bytes);
  ASSERT_TRUE(halves.Send(whole.first(64), {memfd.get()}));
  ASSERT_TRUE(halves.Send(whole.subspan(64), {memfd.get()}));
  EXPECT_EQ(halves.Receive()->answer, OfferAnswer::kDescriptors);
  // After an offer without a descriptor, another may follow.
  Peer again(path_);
  EXPECT_EQ(again.Ask(offer, {}), OfferAnswer::kDescriptors);
  EXPECT_EQ(again.Ask(offer, {memfd.get()}), OfferAnswer::kTaken);
}

TEST_F(Door, RefusesMalformedMessages) {
  Open();
  const Descriptor memfd = Memfd(kPage, kPage);
  OfferBytes bytes = wire::Write(Offer{RegionKind::kMemfd, false, kPage});
  for (const size_t wrong : {0, 7, 13, 24, 127}) {
    OfferBytes other = bytes;
    other[wrong] ^= std::byte{0x40};
    Peer peer(path_);
    ASSERT_TRUE(peer.Send(other, {memfd.get()}));
    EXPECT_EQ(peer.Receive()->answer, OfferAnswer::kMalformed) << wrong;
    EXPECT_TRUE(peer.Closed());
  }
  EXPECT_EQ(Peer(path_).Ask({static_cast<RegionKind>(77), false, kPage},
                            {memfd.get()}),
            OfferAnswer::kKind);
  // Sends an incomplete message, with and without a descriptor.
  for (const bool with : {false, true}) {
    Peer peer(path_);
    ASSERT_TRUE(
        peer.Send(absl::MakeConstSpan(bytes).first(127),
                  with ? std::vector<int>{memfd.get()} : std::vector<int>()));
    peer.HalfClose();
    EXPECT_TRUE(peer.Closed());
  }
  // A message sent byte by byte is accepted.
  Peer slow(path_);
  for (size_t i = 0; i < bytes.size(); ++i) {
    ASSERT_TRUE(slow.Send(
        absl::MakeConstSpan(bytes).subspan(i, 1),
        i == 100 ? std::vector<int>{memfd.get()} : std::vector<int>()));
  }
  EXPECT_EQ(slow.Receive()->answer, OfferAnswer::kTaken);
}

TEST_F(Door, RefusesGpuMemoryWithoutAGpu) {
  Open();
  const Descriptor memfd = Memfd(kPage, kPage);
  Offer offer = {RegionKind::kCudaIpc, false, kPage};
  offer.uuid[0] = offer.ipc[0] = std::byte{1};
  EXPECT_EQ(Peer(path_).Ask(offer, {}), OfferAnswer::kDevice);
  EXPECT_EQ(Peer(path_).Ask(offer, {memfd.get()}), OfferAnswer::kDescriptors);
  offer.kind = RegionKind::kCudaEvent;
  offer.size = 0;
  EXPECT_EQ(Peer(path_).Ask(offer, {}), OfferAnswer::kDevice);
  EXPECT_EQ(Peer(path_).Ask(offer, {memfd.get()}), OfferAnswer::kDescriptors);
  offer.size = kPage;
  EXPECT_EQ(Peer(path_).Ask(offer, {}), OfferAnswer::kMalformed);
  offer.size = 0;
  offer.read_only = true;
  EXPECT_EQ(Peer(path_).Ask(offer, {}), OfferAnswer::kMalformed);
  offer = {RegionKind::kCudaDescriptor, false, kPage};
  EXPECT_EQ(Peer(path_).Ask(offer, {}), OfferAnswer::kDescriptors);
  EXPECT_EQ(Peer(path_).Ask(offer, {memfd.get()}), OfferAnswer::kDevice);
}

TEST_F(Door, ParsesArbitraryBytes) {
  std::mt19937 random(3);
  const OfferBytes good = wire::Write(Offer{RegionKind::kMemfd, true, 12345});
  EXPECT_EQ(wire::ReadOffer(good)->size, 12345u);
  EXPECT_TRUE(wire::ReadOffer(good)->read_only);
  for (size_t size = 0; size < 300; ++size) {
    std::vector<std::byte> bytes(size);
    std::copy_n(good.begin(), std::min(size, good.size()), bytes.begin());
    EXPECT_EQ(wire::ReadOffer(bytes).has_value(), size == good.size());
    EXPECT_EQ(wire::ReadOfferReply(bytes).has_value(), size == good.size());
  }
  for (int i = 0; i < 100'000; ++i) {
    OfferBytes bytes = good;
    for (int k = 0; k < 3; ++k) {
      bytes[random() % 128] = static_cast<std::byte>(random());
    }
    // An offer that is parsed is written back unchanged.
    if (const auto offer = wire::ReadOffer(bytes);
        offer && offer->kind == RegionKind::kMemfd) {
      EXPECT_EQ(wire::Write(*offer), bytes);
    }
    const auto reply = wire::ReadOfferReply(bytes);
    ASSERT_TRUE(reply.has_value());
    EXPECT_LE(reply->text.size(), 104u);
  }
  const OfferReply long_one = {OfferAnswer::kSize, "", std::string(500, 'x')};
  EXPECT_EQ(wire::ReadOfferReply(wire::Write(long_one))->text,
            std::string(103, 'x'));
}

}  // namespace
}  // namespace quantd
