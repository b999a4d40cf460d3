#include "kernels/device/budget.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/device/memory_limit.h"
#include "quantd/field_error.h"

namespace quantd {
namespace {

TEST(BudgetTest, DefaultIsAQuarterOfTheControlGroupsMemory) {
  const size_t limit = ControlGroupMemoryLimit();
  const size_t budget = DefaultBudget();
  EXPECT_GE(budget, size_t{64} << 20);
  EXPECT_LE(budget, size_t{8} << 30);
  EXPECT_LE(budget, std::max(limit / 4, size_t{64} << 20));
}

TEST(BudgetTest, ScratchCountsAsPayloadMemory) {
  QuantizeOptions options;
  options.format = Format::kNvfp4;
  const TensorDesc tensor{DType::kBF16, {256, 1 << 20}, -1};
  const size_t without = PayloadNeed(*MakeQuantizePlan(tensor, options));
  options.dbias = true;
  const auto plan = MakeQuantizePlan(tensor, options);
  ASSERT_TRUE(plan.ok());
  // Scratch has a float per column for each of the two chunks of 128 rows.
  EXPECT_EQ(plan->scratch_bytes(), size_t{8} << 20);
  EXPECT_GE(PayloadNeed(*plan), without + (size_t{8} << 20));
}

TEST(BudgetTest, RefusesAPlanThatNoDeviceCanHold) {
  QuantizeOptions options;
  options.format = Format::kNvfp4;
  const auto plan = MakeQuantizePlan({DType::kBF16, {1024, 1024}, -1}, options);
  ASSERT_TRUE(plan.ok());
  const size_t need = PayloadNeed(*plan);
  EXPECT_TRUE(CheckPayload(*plan, need).ok());
  const absl::Status status = CheckPayload(*plan, need - 1);
  EXPECT_EQ(GetSizeLimit(status), need - 1);
  EXPECT_EQ(GetFieldViolation(status)->field,
            "memory for input, output and scratch");
}

TEST(BudgetTest, LargestThatFits) {
  for (const size_t most : {0, 1, 7, 99, 100, 101}) {
    EXPECT_EQ(LargestThat(100, [&](size_t n) { return n <= most; }),
              std::min<size_t>(most, 100));
  }
}

}  // namespace
}  // namespace quantd
