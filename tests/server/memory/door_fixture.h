// A memory socket without a server. Each test checks that it leaks no
// descriptor or mapping.
#ifndef QUANTD_TESTS_SERVER_MEMORY_DOOR_FIXTURE_H_
#define QUANTD_TESTS_SERVER_MEMORY_DOOR_FIXTURE_H_

#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/memory/door.h"
#include "tests/client/temp_dir.h"
#include "tests/server/memory/door_peer.h"
#include "tests/server/rpc_client.h"
#include "tests/testing/matchers.h"

namespace quantd {

inline size_t OpenDescriptors() {
  const std::filesystem::directory_iterator open("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(open), end(open)));
}

inline size_t Mapped() {
  const std::string maps = ReadFile("/proc/self/maps");
  size_t count = 0;
  for (size_t at = 0; (at = maps.find("/memfd:door", at)) != std::string::npos;
       ++at) {
    ++count;
  }
  return count;
}

class Door : public testing::Test {
 protected:
  Door() {
    limits_.bytes = 64 * kPage;
    limits_.connection_bytes = 32 * kPage;
  }
  void Open(std::vector<uid_t> peers = {geteuid()}) {
    auto door = MemoryDoor::Open(path_, std::move(peers), limits_, &regions_);
    ASSERT_THAT(door, IsOk());
    door_ = *std::move(door);
    descriptors_ = OpenDescriptors();
  }
  // Checks that no region or descriptor is left.
  void TearDown() override {
    if (door_ == nullptr) return;
    // An earlier test may still have been closing descriptors.
    EXPECT_TRUE(Eventually([&] { return OpenDescriptors() <= descriptors_; }))
        << descriptors_ << " and now " << OpenDescriptors();
    EXPECT_EQ(Mapped(), 0u);
    EXPECT_EQ(door_->use().regions, 0u);
    EXPECT_EQ(door_->use().bytes, 0u);
    door_.reset();
    EXPECT_FALSE(std::filesystem::exists(path_));
  }

  const TempDir directory_;
  const std::string path_ = directory_ / "door";
  DoorLimits limits_;
  Regions regions_;
  std::unique_ptr<MemoryDoor> door_;
  size_t descriptors_ = 0;
};

}  // namespace quantd

#endif  // QUANTD_TESTS_SERVER_MEMORY_DOOR_FIXTURE_H_
