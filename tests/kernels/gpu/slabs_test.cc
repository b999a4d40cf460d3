// Tests jobs that a GPU processes in slabs.
#include "kernels/device/slabs.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/device/devices.h"
#include "kernels/device/recipe.h"
#include "tests/testing/device.h"
#include "tests/testing/matchers.h"

namespace quantd {
namespace {

constexpr size_t kSlab = size_t{8} << 20;  // kSlabBytes of cuda_job.cc

// A job of two slabs reads times of three streams, but waits only for the last.
TEST(GpuSlabsTest, ReadsTimesOfAllStreamsAfterTheLastIsDone) {
  const auto target = GpuTarget();
  if (!target) GTEST_SKIP() << CudaUnavailableReason();
  auto device = Device::Open(*target, BackendOptions{});
  ASSERT_THAT(device, IsOk());
  QuantizeOptions o;
  o.format = Format::kMxfp8E4M3;
  o.usage = Usage::kRowwise;
  auto plan = MakeQuantizePlan({DType::kBF16, {2048, 4096}, -1}, o);
  ASSERT_THAT(plan, IsOk());
  ASSERT_EQ(CutIntoSlabs(*plan, MakeRecipe(*plan), kSlab).size(), 2u);
  std::vector<std::byte> in(plan->input_bytes(), std::byte{0x3F});
  std::vector<std::vector<std::byte>> out;
  LentMemory lent;
  lent.inputs.emplace_back(in);
  for (const TensorSpec& spec : plan->outputs()) {
    lent.outputs.emplace_back(out.emplace_back(spec.size));
  }
  auto job = device->backend().Begin(
      std::make_shared<const Plan>(*std::move(plan)), std::move(lent));
  ASSERT_THAT(job, IsOk());
  const auto report = (*job)->Run();
  ASSERT_THAT(report, IsOk());
  EXPECT_GE(report->times.copy_in_ns, 0);
  EXPECT_GE(report->times.copy_out_ns, 0);
}

}  // namespace
}  // namespace quantd
