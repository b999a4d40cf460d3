// Tests the GPU memory that a job needs for tables, beside its payload.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/device/devices.h"
#include "quantd/field_error.h"
#include "tests/testing/device.h"
#include "tests/testing/matchers.h"
#include "tests/testing/run_plan.h"

namespace quantd {
namespace {

// A device with 40 MiB refuses a job whose tables of groups can never fit, by
// an error with the limit. A job with fewer groups succeeds.
TEST(GpuTablesTest, RefusesTablesThatNeverFit) {
  const auto target = GpuTarget();
  if (!target) GTEST_SKIP() << CudaUnavailableReason();
  BackendOptions options;
  options.memory_limit = size_t{40} << 20;
  auto device = Device::Open(*target, options);
  ASSERT_THAT(device, IsOk());
  const auto run = [&](int64_t groups) {
    QuantizeOptions o;
    o.format = Format::kNvfp4;
    o.usage = Usage::kBoth;
    o.splits = std::vector<int64_t>(groups, 1);
    const auto plan = MakeQuantizePlan({DType::kBF16, {groups, 64}, -1}, o);
    EXPECT_THAT(plan, IsOk());
    return RunPlan(device->backend(), *plan,
                   {std::vector<uint8_t>(plan->input_bytes(), 0x3F)})
        .status();
  };
  const absl::Status refused = run(kMaxGroups);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_TRUE(GetSizeLimit(refused).has_value()) << refused;
  EXPECT_THAT(run(1000), IsOk());
}

}  // namespace
}  // namespace quantd
