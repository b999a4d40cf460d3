// Simulated machines made of files: control groups in the layouts of hosts,
// containers, systemd and Slurm.
#include "kernels/device/memory_limit.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/client/temp_dir.h"

namespace quantd {
namespace {

constexpr char kNoLimitV1[] = "9223372036854771712\n";
constexpr char kV2Mount[] =
    "22 20 0:20 / /proc rw - proc proc rw\n"
    "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";

class MemoryLimitTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::string whole = dir_ / path;
    std::filesystem::create_directories(
        std::filesystem::path(whole).parent_path());
    WriteFile(whole, text);
  }
  void Groups(const std::string& cgroup, const std::string& mountinfo) {
    Write("proc/self/cgroup", cgroup);
    Write("proc/self/mountinfo", mountinfo);
  }
  size_t Limit() const { return ControlGroupMemoryLimit(dir_.path()); }

  const TempDir dir_;
};

TEST_F(MemoryLimitTest, WithoutControlGroupsThereIsNoLimit) {
  EXPECT_EQ(Limit(), SIZE_MAX);
  Groups("", "");
  EXPECT_EQ(Limit(), SIZE_MAX);
  Groups("garbage\n0:\n::\n\n", "garbage\n - \n1 2 3 4 5 - cgroup2\n");
  EXPECT_EQ(Limit(), SIZE_MAX);
}

TEST_F(MemoryLimitTest, AContainersGroupIsTheMountPoint) {
  Groups("0::/\n", kV2Mount);
  EXPECT_EQ(Limit(), SIZE_MAX);
  Write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(Limit(), SIZE_MAX);
  Write("sys/fs/cgroup/memory.max", "1073741824\n");
  EXPECT_EQ(Limit(), size_t{1} << 30);
  Write("sys/fs/cgroup/memory.max", "nonsense\n");
  EXPECT_EQ(Limit(), SIZE_MAX);
}

TEST_F(MemoryLimitTest, TheLowestLimitOfTheGroupAndItsAncestorsCounts) {
  Groups("0::/system.slice/quantd.service/inner\n", kV2Mount);
  const std::string slice = "sys/fs/cgroup/system.slice/";
  Write(slice + "memory.max", "max\n");
  Write(slice + "quantd.service/memory.max", "3000\n");
  Write(slice + "quantd.service/inner/memory.max", "max\n");
  EXPECT_EQ(Limit(), 3000u);
  Write(slice + "memory.max", "2000\n");
  EXPECT_EQ(Limit(), 2000u);
  Write(slice + "quantd.service/inner/memory.high", "1000\n");
  EXPECT_EQ(Limit(), 1000u);
  // The limit of a neighbouring group does not count.
  Write(slice + "other.service/memory.max", "10\n");
  EXPECT_EQ(Limit(), 1000u);
}

TEST_F(MemoryLimitTest, VersionOneHasATreeForMemory) {
  Groups("11:memory:/slurm/uid_0/job_7\n10:cpu,cpuacct:/\n0::/init.scope\n",
         "33 25 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
         "34 25 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
         "35 25 0:31 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  const std::string memory = "sys/fs/cgroup/memory/";
  Write(memory + "memory.limit_in_bytes", kNoLimitV1);
  Write(memory + "slurm/memory.limit_in_bytes", kNoLimitV1);
  EXPECT_EQ(Limit(), std::stoull(kNoLimitV1));
  Write(memory + "slurm/uid_0/job_7/memory.limit_in_bytes", "5000\n");
  EXPECT_EQ(Limit(), 5000u);
  Write(memory + "slurm/uid_0/memory.limit_in_bytes", "4000\n");
  EXPECT_EQ(Limit(), 4000u);
  Write("sys/fs/cgroup/cpu/memory.limit_in_bytes", "1\n");
  EXPECT_EQ(Limit(), 4000u);
}

TEST_F(MemoryLimitTest, AContainerOfVersionOneMountsItsOwnGroup) {
  const std::string mount =
      "40 39 0:30 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup "
      "rw,memory\n";
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "7000\n");
  Write("sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "6000\n");
  Groups("4:memory:/docker/abc\n", mount);
  EXPECT_EQ(Limit(), 7000u);
  Groups("4:memory:/docker/abc/inner\n", mount);
  EXPECT_EQ(Limit(), 6000u);
  Groups("4:memory:/elsewhere\n", mount);
  EXPECT_EQ(Limit(), 7000u);
}

TEST_F(MemoryLimitTest, PathsMayContainSpacesOrNotExist) {
  Groups("0::/../beside\n",
         "30 24 0:26 / /my\\040groups rw - cgroup2 cgroup2 rw\n");
  Write("my groups/memory.max", "900\n");
  Write("beside/memory.max", "1\n");
  EXPECT_EQ(Limit(), 900u);
}

}  // namespace
}  // namespace quantd
