#include "kernels/device/health/fault_backend.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "absl/time/clock.h"
#include "kernels/device/devices.h"
#include "kernels/device/out_of_memory.h"
#include "quantd/plan.h"

namespace quantd {
namespace {

class FaultBackendTest : public testing::Test {
 protected:
  FaultBackendTest() {
    auto inner = OpenBackend("cpu:0");
    EXPECT_TRUE(inner.ok());
    backend_ = MakeFaultBackend("fault:cpu:0", *std::move(inner), control_);
    QuantizeOptions options;
    options.format = Format::kMxfp8E4M3;
    auto plan =
        MakeQuantizePlan({.dtype = DType::kF32, .shape = {4, 64}}, options);
    EXPECT_TRUE(plan.ok());
    plan_ = std::make_shared<const Plan>(*std::move(plan));
  }
  // Runs a job and returns its bytes or its error.
  absl::StatusOr<std::string> Run() {
    auto job = backend_->Begin(plan_);
    if (!job.ok()) return job.status();
    float values[256];
    for (int i = 0; i < 256; ++i) values[i] = static_cast<float>(i) - 100;
    std::memcpy((*job)->staging().data(), values, sizeof(values));
    auto report = (*job)->Run();
    if (!report.ok()) return report.status();
    const Block block = (*job)->TakeOutput();
    return std::string(reinterpret_cast<const char*>(block.data()),
                       block.size());
  }

  const std::shared_ptr<FaultControl> control_ =
      std::make_shared<FaultControl>();
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<const Plan> plan_;
};

TEST_F(FaultBackendTest, OneJobFailsAndTheNextSucceeds) {
  const auto right = Run();
  ASSERT_TRUE(right.ok());
  control_->Next(InjectedFault::kOnce);
  EXPECT_TRUE(absl::IsUnavailable(Run().status()));
  EXPECT_TRUE(backend_->stats().healthy);
  EXPECT_EQ(*Run(), *right);
  EXPECT_EQ(control_->jobs(), 3u);
}

TEST_F(FaultBackendTest, AStickyFaultLastsUntilItIsHealed) {
  control_->Arrange({{InjectedFault::kSticky, 2}});
  EXPECT_TRUE(Run().ok());
  EXPECT_FALSE(Run().ok());
  EXPECT_FALSE(Run().ok());
  EXPECT_FALSE(backend_->stats().healthy);
  control_->Heal();
  EXPECT_TRUE(Run().ok());
  EXPECT_TRUE(backend_->stats().healthy);
}

TEST_F(FaultBackendTest, AFaultMayEndByItself) {
  control_->Next(InjectedFault::kSticky, absl::Milliseconds(20));
  EXPECT_FALSE(Run().ok());
  absl::SleepFor(absl::Milliseconds(30));
  EXPECT_TRUE(Run().ok());
}

TEST_F(FaultBackendTest, WrongBytesDifferInOneBit) {
  const std::string right = *Run();
  control_->Next(InjectedFault::kWrong);
  const std::string wrong = *Run();
  ASSERT_EQ(wrong.size(), right.size());
  int bits = 0;
  for (size_t i = 0; i < right.size(); ++i) {
    bits += __builtin_popcount(static_cast<uint8_t>(right[i] ^ wrong[i]));
  }
  EXPECT_EQ(bits, 1);
  control_->Heal();
  EXPECT_EQ(*Run(), right);
}

TEST_F(FaultBackendTest, OutOfMemoryDiffersFromTheLimitOfAPool) {
  control_->Next(InjectedFault::kOutOfMemory);
  EXPECT_TRUE(IsOutOfMemory(Run().status()));
  EXPECT_FALSE(IsOutOfMemory(absl::ResourceExhaustedError("all slots")));
  EXPECT_FALSE(IsOutOfMemory(absl::OkStatus()));
}

TEST_F(FaultBackendTest, AJobHangsUntilItIsReleased) {
  const std::string right = *Run();
  control_->Next(InjectedFault::kHang);
  absl::StatusOr<std::string> late;
  std::thread thread([&] { late = Run(); });
  while (control_->hanging() == 0) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(*Run(), right);  // other jobs work
  control_->Heal();
  thread.join();
  EXPECT_EQ(*late, right);
}

TEST(FaultDeviceTest, ParsesNamesAndRefusesWrongOnes) {
  const auto device =
      ParseFaultDevice("fault:cpu:1:sticky@20/500+once@3+hang@4");
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ(device->inner, "cpu:1");
  EXPECT_EQ(device->name, "fault:cpu:1");
  ASSERT_EQ(device->faults.size(), 3u);
  EXPECT_EQ(device->faults[0].kind, InjectedFault::kSticky);
  EXPECT_EQ(device->faults[0].job, 20u);
  EXPECT_EQ(device->faults[0].length, absl::Milliseconds(500));
  EXPECT_EQ(device->faults[2].kind, InjectedFault::kHang);
  EXPECT_EQ(device->faults[2].length, absl::InfiniteDuration());
  for (const char* wrong :
       {"fault:", "fault:cpu", "fault:cpu:x", "fault:memcpy:0",
        "fault:cpu:0:", "fault:cpu:0:melt@1", "fault:cpu:0:once",
        "fault:cpu:0:once@0", "fault:cpu:0:once@1/2/3", "fault:cpu:0:once@1/-1",
        "fault:cpu:0:once@1:hang@2"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseFaultDevice(wrong).status()))
        << wrong;
  }
}

TEST(FaultDeviceTest, IsOpenedByNameAndNeverListed) {
  const auto backend = OpenBackend("fault:cpu:0:once@1");
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_EQ((*backend)->info().name, "fault:cpu:0");
  EXPECT_EQ((*backend)->info().kind, "cpu");
  for (const std::string& name : ListBackends()) {
    EXPECT_FALSE(name.starts_with("fault")) << name;
  }
}

}  // namespace
}  // namespace quantd
