#include "server/machine_limits.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace attend::server {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

// A made-up /proc and /sys.
class MachineLimitsTest : public ::testing::Test {
 protected:
  MachineLimitsTest() {
    std::string name = ::testing::TempDir() + "/machine_limits_XXXXXX";
    root_ = mkdtemp(name.data());
    Write("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree:         1234 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = root_ + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }

  void MountUnified(const std::string& part, const std::string& point) {
    Write("/proc/self/mountinfo", "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n30 22 0:26 " + part + " " + point +
                                      " rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n");
  }

  // As in a container of version 1: each controller with a mount of its own.
  void MountVersion1(const std::string& part) {
    Write("/proc/self/mountinfo",
          "31 22 0:27 " + part + " /sys/fs/cgroup/memory ro,nosuid master:9 - cgroup cgroup rw,memory\n" +
              "32 22 0:28 " + part + " /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n" + "33 22 0:29 " +
              part + " /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n");
  }

  std::string root_;
};

TEST_F(MachineLimitsTest, WithoutCgroupsTheMachineItself) {
  const MachineLimits limits = ReadMachineLimits(3, root_);
  EXPECT_EQ(limits.cpus, 3);
  EXPECT_EQ(limits.memory_bytes, 16384 * kMiB);
}

TEST_F(MachineLimitsTest, WithoutAnythingOneProcessorAndUnknownMemory) {
  const MachineLimits limits = ReadMachineLimits(0, root_ + "/nothing");
  EXPECT_EQ(limits.cpus, 1);
  EXPECT_EQ(limits.memory_bytes, 0);
}

TEST_F(MachineLimitsTest, UnifiedTakesTheSmallestFromTheProcessToTheRoot) {
  Write("/proc/self/cgroup", "0::/kubepods/pod1/box\n");
  MountUnified("/", "/sys/fs/cgroup");
  Write("/sys/fs/cgroup/kubepods/pod1/box/memory.max", "max\n");
  Write("/sys/fs/cgroup/kubepods/pod1/box/cpu.max", "250000 100000\n");
  Write("/sys/fs/cgroup/kubepods/pod1/memory.max", std::to_string(512 * kMiB) + "\n");
  Write("/sys/fs/cgroup/kubepods/pod1/cpu.max", "max 100000\n");
  Write("/sys/fs/cgroup/kubepods/memory.max", std::to_string(2048 * kMiB) + "\n");
  Write("/sys/fs/cgroup/kubepods/cpu.max", "600000 100000\n");
  const MachineLimits limits = ReadMachineLimits(8, root_);
  EXPECT_EQ(limits.cpus, 2);  // of 2.5
  EXPECT_EQ(limits.memory_bytes, 512 * kMiB);
}

TEST_F(MachineLimitsTest, ALimitAtTheRootOfTheMountCounts) {
  Write("/proc/self/cgroup", "0::/\n");
  MountUnified("/", "/sys/fs/cgroup");
  Write("/sys/fs/cgroup/memory.max", std::to_string(100 * kMiB));
  Write("/sys/fs/cgroup/cpu.max", "50000 100000");
  const MachineLimits limits = ReadMachineLimits(8, root_);
  EXPECT_EQ(limits.cpus, 1);  // of 0.5
  EXPECT_EQ(limits.memory_bytes, 100 * kMiB);
}

TEST_F(MachineLimitsTest, AffinityBoundsAsWell) {
  Write("/proc/self/cgroup", "0::/\n");
  MountUnified("/", "/sys/fs/cgroup");
  Write("/sys/fs/cgroup/cpu.max", "1600000 100000");
  EXPECT_EQ(ReadMachineLimits(4, root_).cpus, 4);
}

TEST_F(MachineLimitsTest, PathsOfTheHostAreJoinedThroughTheMountedPart) {
  Write("/proc/self/cgroup", "5:memory:/docker/abc/inner\n4:cpu,cpuacct:/docker/abc/inner\n3:cpuset:/docker/abc\n");
  MountVersion1("/docker/abc");
  Write("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", std::to_string(300 * kMiB));
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(700 * kMiB));
  Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  const MachineLimits limits = ReadMachineLimits(16, root_);
  EXPECT_EQ(limits.cpus, 3);
  EXPECT_EQ(limits.memory_bytes, 300 * kMiB);
}

TEST_F(MachineLimitsTest, APathThatIsNotUnderTheMountedPartLeavesTheMountPoint) {
  for (const char* const path : {"/docker/xyz", "/docker/abcdef", "/", "/../../elsewhere"}) {
    Write("/proc/self/cgroup", std::string("5:memory:") + path + "\n");
    MountVersion1("/docker/abc");
    Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(200 * kMiB));
    EXPECT_EQ(ReadMachineLimits(1, root_).memory_bytes, 200 * kMiB) << path;
  }
}

TEST_F(MachineLimitsTest, Version1WritesNoLimitAsAHugeOne) {
  Write("/proc/self/cgroup", "5:memory:/\n4:cpu,cpuacct:/\n");
  MountVersion1("/");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  const MachineLimits limits = ReadMachineLimits(6, root_);
  EXPECT_EQ(limits.cpus, 6);
  EXPECT_EQ(limits.memory_bytes, 16384 * kMiB);
}

TEST_F(MachineLimitsTest, NonsenseBoundsNothing) {
  Write("/proc/self/cgroup", "nonsense\n0::/\n\n");
  MountUnified("/", "/sys/fs/cgroup");
  Write("/sys/fs/cgroup/memory.max", "lots\n");
  for (const char* const text : {"", "a b c", "100000", "100000 0", "x 100000"}) {
    Write("/sys/fs/cgroup/cpu.max", text);
    const MachineLimits limits = ReadMachineLimits(6, root_);
    EXPECT_EQ(limits.cpus, 6) << text;
    EXPECT_EQ(limits.memory_bytes, 16384 * kMiB);
  }
}

TEST_F(MachineLimitsTest, EscapedMountPointsAreUnescaped) {
  Write("/proc/self/cgroup", "0::/\n");
  MountUnified("/", "/sys/my\\040groups");
  Write("/sys/my groups/memory.max", std::to_string(50 * kMiB));
  EXPECT_EQ(ReadMachineLimits(1, root_).memory_bytes, 50 * kMiB);
}

TEST(MachineLimitsOfThisMachineTest, AreSensible) {
  const int affinity = AffinityCount();
  EXPECT_GE(affinity, 1);
  const MachineLimits limits = ReadMachineLimits(affinity);
  EXPECT_GE(limits.cpus, 1);
  EXPECT_LE(limits.cpus, affinity);
  EXPECT_GT(limits.memory_bytes, kMiB);
}

}  // namespace
}  // namespace attend::server
