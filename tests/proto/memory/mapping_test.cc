// Tests of mappings of a memfd in a client and a server.
#include "proto/memory/mapping.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <string>

namespace quantd::wire {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kLargePage = size_t{2} << 20;
constexpr int kBoth = PROT_READ | PROT_WRITE;

class Memfd {
 public:
  explicit Memfd(size_t bytes) : fd_(memfd_create("mapping_test", 0)) {
    EXPECT_EQ(ftruncate(fd_, static_cast<off_t>(bytes)), 0);
  }
  ~Memfd() { close(fd_); }
  Memfd(const Memfd&) = delete;
  int get() const { return fd_; }
  size_t populated() const {
    struct stat status = {};
    EXPECT_EQ(fstat(fd_, &status), 0);
    return static_cast<size_t>(status.st_blocks) * 512;
  }

 private:
  const int fd_;
};

// Returns the size of all mappings of this process in KiB.
size_t AddressesInUse() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    size_t kib = 0;
    if (word == "VmSize:" && status >> kib) return kib;
  }
  ADD_FAILURE() << "no VmSize";
  return 0;
}

class MapSharedTest : public testing::TestWithParam<size_t> {};

TEST_P(MapSharedTest, MappingsShareBytesAndLeaveNoSpareAddresses) {
  const size_t bytes = GetParam();
  const Memfd memfd(bytes);
  const size_t before = AddressesInUse();
  void* const one = MapShared(memfd.get(), bytes, kBoth);
  ASSERT_NE(one, MAP_FAILED);
  UseLargePages({static_cast<std::byte*>(one), bytes});
  void* const other = MapShared(memfd.get(), bytes, PROT_READ, MAP_POPULATE);
  ASSERT_NE(other, MAP_FAILED);
  EXPECT_EQ(AddressesInUse() - before, 2 * bytes / 1024);

  if (bytes >= kLargePage) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(one) % kLargePage, 0U);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(other) % kLargePage, 0U);
  }
  auto* const written = static_cast<unsigned char*>(one);
  const auto* const read = static_cast<const unsigned char*>(other);
  EXPECT_TRUE(std::all_of(read, read + bytes, [](auto b) { return b == 0; }));
  for (size_t i = 0; i < bytes; ++i) {
    written[i] = static_cast<unsigned char>(i * 31 + i / kPage);
  }
  EXPECT_TRUE(std::equal(written, written + bytes, read));

  EXPECT_EQ(munmap(one, bytes), 0);
  EXPECT_EQ(munmap(other, bytes), 0);
  EXPECT_EQ(AddressesInUse(), before);
}

INSTANTIATE_TEST_SUITE_P(Sizes, MapSharedTest,
                         testing::Values(kPage, kLargePage - kPage, kLargePage,
                                         kLargePage + kPage, 3 * kLargePage,
                                         5 * kLargePage - kPage));

TEST(MapSharedTest, PopulatesOnlyOnRequest) {
  const Memfd memfd(4 * kLargePage);
  void* const mapped = MapShared(memfd.get(), 4 * kLargePage, kBoth);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(memfd.populated(), 0U);
  EXPECT_EQ(munmap(mapped, 4 * kLargePage), 0);
}

// Only the first large page fits: the rest of the mapping is smaller than one.
TEST(MapSharedTest, LargePagesEndWithinTheMapping) {
  const size_t bytes = 2 * kLargePage - kPage;
  const Memfd memfd(bytes);
  void* const mapped = MapShared(memfd.get(), bytes, kBoth);
  ASSERT_NE(mapped, MAP_FAILED);
  UseLargePages({static_cast<std::byte*>(mapped), bytes});
  EXPECT_LE(memfd.populated(), kLargePage);
  EXPECT_EQ(munmap(mapped, bytes), 0);
}

TEST(MapSharedTest, PopulatesAllOfIt) {
  for (const size_t bytes : {kPage, 3 * kLargePage + kPage}) {
    const Memfd memfd(bytes);
    void* const mapped = MapShared(memfd.get(), bytes, kBoth);
    ASSERT_NE(mapped, MAP_FAILED);
    EXPECT_TRUE(
        Populate(memfd.get(), {static_cast<std::byte*>(mapped), bytes}));
    EXPECT_EQ(memfd.populated(), bytes);
    EXPECT_EQ(munmap(mapped, bytes), 0);
  }
}

TEST(MapSharedTest, FailsWithErrno) {
  errno = 0;
  EXPECT_EQ(MapShared(-1, 3 * kLargePage, kBoth), MAP_FAILED);
  EXPECT_EQ(errno, EBADF);
  const Memfd memfd(kPage);
  EXPECT_EQ(MapShared(memfd.get(), 0, kBoth), MAP_FAILED);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(MapShared(memfd.get(), SIZE_MAX, kBoth), MAP_FAILED);
  EXPECT_EQ(errno, ENOMEM);
}

}  // namespace
}  // namespace quantd::wire
