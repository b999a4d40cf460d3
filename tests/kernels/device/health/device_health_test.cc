#include "kernels/device/health/device_health.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "kernels/device/out_of_memory.h"

namespace quantd {
namespace {

using enum DeviceState;

TEST(DeviceHealthTest, AFaultyDeviceMustPassATestToBeHealthy) {
  DeviceHealth health;
  EXPECT_TRUE(health.healthy());
  EXPECT_FALSE(health.BeginProbe());  // no fault to disprove
  EXPECT_TRUE(health.Report(DeviceFault::kError));
  EXPECT_EQ(health.state(), kSuspect);
  EXPECT_FALSE(health.Report(DeviceFault::kOutOfMemory));
  EXPECT_FALSE(health.TestPassed());  // of a test begun before the fault
  EXPECT_EQ(health.state(), kSuspect);
  EXPECT_TRUE(health.BeginProbe());
  EXPECT_EQ(health.state(), kProbing);
  EXPECT_FALSE(health.BeginProbe());                 // one probe at a time
  EXPECT_FALSE(health.Report(DeviceFault::kError));  // from an older job
  EXPECT_EQ(health.state(), kProbing);
  EXPECT_TRUE(health.TestPassed());
  EXPECT_TRUE(health.healthy());
  EXPECT_EQ(health.faults(DeviceFault::kError), 2u);
  EXPECT_EQ(health.faults(DeviceFault::kOutOfMemory), 1u);
  EXPECT_EQ(health.tests_passed(), 2u);
}

TEST(DeviceHealthTest, AFailedTestQuarantinesUntilATestPasses) {
  DeviceHealth health;
  EXPECT_TRUE(health.TestFailed(DeviceFault::kWrongAnswer));
  EXPECT_EQ(health.state(), kQuarantined);
  EXPECT_FALSE(health.Report(DeviceFault::kError));
  EXPECT_EQ(health.state(), kQuarantined);
  EXPECT_FALSE(health.TestPassed());
  EXPECT_EQ(health.state(), kQuarantined);
  EXPECT_TRUE(health.BeginProbe());
  EXPECT_FALSE(health.TestFailed(DeviceFault::kError));
  EXPECT_EQ(health.state(), kQuarantined);
  EXPECT_TRUE(health.BeginProbe());
  EXPECT_TRUE(health.TestPassed());
  EXPECT_TRUE(health.healthy());
  EXPECT_EQ(health.tests_failed(), 2u);
}

TEST(DeviceHealthTest, ADeviceIsQuarantinedUntilItsHangingJobEnds) {
  DeviceHealth health;
  EXPECT_TRUE(health.Report(DeviceFault::kHang));
  EXPECT_FALSE(health.Report(DeviceFault::kHang));
  EXPECT_EQ(health.state(), kQuarantined);
  EXPECT_EQ(health.hanging(), 2);
  EXPECT_FALSE(health.BeginProbe());
  health.HungJobEnded();
  EXPECT_FALSE(health.BeginProbe());
  health.HungJobEnded();
  EXPECT_TRUE(health.BeginProbe());
  EXPECT_FALSE(health.Report(DeviceFault::kHang));  // the probe's own fault
  EXPECT_EQ(health.state(), kQuarantined);
}

TEST(DeviceHealthTest, AWrongAnswerQuarantinesAtOnce) {
  DeviceHealth health;
  EXPECT_TRUE(health.Report(DeviceFault::kWrongAnswer));
  EXPECT_EQ(health.state(), kQuarantined);
}

TEST(DeviceHealthTest, OnlyTheDevicesOwnErrorsAreFaults) {
  EXPECT_FALSE(FaultOf(absl::OkStatus()));
  EXPECT_FALSE(FaultOf(absl::InvalidArgumentError("NaN")));
  EXPECT_FALSE(FaultOf(absl::ResourceExhaustedError("all slots are taken")));
  EXPECT_FALSE(FaultOf(absl::UnimplementedError("lent memory")));
  EXPECT_EQ(FaultOf(absl::InternalError("illegal address")),
            DeviceFault::kError);
  EXPECT_EQ(FaultOf(absl::UnavailableError("out of service")),
            DeviceFault::kError);
  EXPECT_EQ(FaultOf(OutOfMemoryError("cudaMalloc")), DeviceFault::kOutOfMemory);
}

TEST(DeviceHealthTest, OnlyOneOfManyConcurrentReportsFindsItHealthy) {
  for (int round = 0; round < 100; ++round) {
    DeviceHealth health;
    std::atomic<int> first = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back(
          [&] { first += health.Report(DeviceFault::kError) ? 1 : 0; });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(first, 1);
    EXPECT_EQ(health.faults(DeviceFault::kError), 4u);
  }
}

}  // namespace
}  // namespace quantd
