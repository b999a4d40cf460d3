// A job that gets its amax between FindMaxima and Run gives the same bytes as a
// job that computes it, on every device and for every plan that can reduce.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "kernels/device/devices.h"
#include "kernels/plan/amax_source.h"
#include "kernels/plan/shards.h"
#include "quantd/field_error.h"
#include "tests/kernels/device/plan_rows.h"
#include "tests/testing/device.h"
#include "tests/testing/matchers.h"
#include "tests/testing/run_plan.h"
#include "tests/testing/tensors.h"

namespace quantd {
namespace {

// Contents of successive test tensors. Only the last have NaN and Inf.
constexpr Flavor kTurns[] = {Flavor::kGaussian, Flavor::kOutliers,
                             Flavor::kSpread, Flavor::kNonFinite};

oracle::Element ElementOf(DType dtype) {
  return dtype == DType::kF32   ? oracle::Element::kF32
         : dtype == DType::kF16 ? oracle::Element::kF16
                                : oracle::Element::kBF16;
}

bool IsFinite(const CopyAmax& amax) {
  const auto finite = [](float a) { return std::isfinite(a); };
  return std::all_of(amax.rowwise.begin(), amax.rowwise.end(), finite) &&
         std::all_of(amax.columnwise.begin(), amax.columnwise.end(), finite);
}

class ReductionTest : public testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
    if (GetParam().device == "cuda") GTEST_SKIP() << CudaUnavailableReason();
    auto device = Device::Open(GetParam());
    ASSERT_THAT(device, IsOk());
    device_.emplace(*std::move(device));
  }

  void ExpectSame(const Plan& plan) {
    if (!CheckReduces(plan).ok()) return;
    if (plan.input_bytes() + plan.output_bytes() > (size_t{4} << 20)) return;
    const oracle::Bytes input =
        MakeTensor(ElementOf(plan.tensor().dtype), plan.rows() * plan.cols(),
                   kTurns[turn_ % std::size(kTurns)], turn_);
    ++turn_;
    Backend& backend = device_->backend();
    const auto own = RunPlanOnOwnMemory(backend, plan, {input});

    auto job = backend.Begin(std::make_shared<const Plan>(plan));
    ASSERT_THAT(job, IsOk());
    const absl::Span<std::byte> staging = (*job)->staging();
    if (!input.empty()) {
      std::memcpy(staging.data(), input.data(), input.size());
    }
    (*job)->Fed(input.size() / 2);
    (*job)->Fed(input.size());
    auto found = (*job)->FindMaxima();
    ASSERT_EQ(found.status().code(), own.status().code()) << found.status();
    if (!found.ok()) {
      ++rejected_;
      EXPECT_EQ(GetFieldViolation(found.status())->field,
                GetFieldViolation(own.status())->field);
      return;
    }
    EXPECT_EQ(found->saw_nan, own->report.saw_nan);
    EXPECT_EQ(found->saw_inf, own->report.saw_inf);
    const auto& o = std::get<QuantizeOptions>(plan.options());
    CopyAmax reduced = found->amax;
    for (float& a : reduced.rowwise) a *= SourceOfAmax(o, false).factor;
    for (float& a : reduced.columnwise) a *= SourceOfAmax(o, true).factor;
    auto settled = SettledPlan(plan, reduced);
    if (!IsFinite(reduced)) {
      EXPECT_FALSE(settled.ok());
      return;
    }
    ASSERT_THAT(settled, IsOk());
    ASSERT_THAT((*job)->Settle(std::make_shared<const Plan>(*settled)), IsOk());
    const auto report = (*job)->Run();
    ASSERT_THAT(report, IsOk());
    EXPECT_EQ(report->saw_nan, own->report.saw_nan);
    EXPECT_EQ(report->saw_inf, own->report.saw_inf);
    EXPECT_EQ(report->replaced_globals, own->report.replaced_globals);
    const Block got = (*job)->TakeOutput();
    ASSERT_EQ(got.size(), own->payload.size());
    EXPECT_TRUE(got.size() == 0 ||
                std::memcmp(got.data(), own->payload.data(), got.size()) == 0);
    ++same_;
  }

  std::optional<Device> device_;
  size_t turn_ = 0;
  int same_ = 0;
  int rejected_ = 0;
};

TEST_P(ReductionTest, GivenAmaxGivesTheBytesOfAComputedOne) {
  ForQuantizeRows(1, [&](const QuantizeRow& row) {
    if (HasFailure()) return;
    SCOPED_TRACE(fmt::format("{} {} {} {}", row.format.name, Name(row.usage),
                             Name(row.dtype), row.settings));
    ExpectSame(row.plan);
  });
  EXPECT_GT(same_, 100);
}

// Tensors whose input is copied in several steps, and small ones.
TEST_P(ReductionTest, LargeAndSmallTensors) {
  for (const auto& [rows, cols] :
       {std::pair<int64_t, int64_t>{1024, 1024}, {16, 16}, {1, 32}, {0, 32}}) {
    for (const NonFinite policy : {NonFinite::kIgnore, NonFinite::kReject}) {
      for (int turn = 0; turn < 4; ++turn) {
        QuantizeOptions o;
        o.format = Format::kNvfp4;
        o.usage = turn % 2 == 0 ? Usage::kRowwise : Usage::kBoth;
        o.rht.rowwise = turn > 1;
        o.non_finite = policy;
        const auto plan = MakeQuantizePlan({DType::kBF16, {rows, cols}}, o);
        ASSERT_THAT(plan, IsOk());
        ExpectSame(*plan);
      }
    }
  }
  EXPECT_GT(same_, 10);
  EXPECT_GT(rejected_, 1);
}

INSTANTIATE_TEST_SUITE_P(Devices, ReductionTest, testing::ValuesIn(Targets()),
                         [](const auto& p) { return Identifier(p.param); });

// The plans that find maxima and use them need no more memory than the original
// plan, because the server reserves memory before it accepts a call.
TEST(Reduction, TakesNoMoreMemoryThanThePlan) {
  int count = 0;
  ForQuantizeRows(2, [&](const QuantizeRow& row) {
    if (HasFailure() || !CheckReduces(row.plan).ok()) return;
    SCOPED_TRACE(fmt::format("{} {} {}", row.format.name, Name(row.usage),
                             row.settings));
    const auto maxima = MaximaPlan(row.plan);
    ASSERT_THAT(maxima, IsOk());
    EXPECT_LE(maxima->output_bytes(), row.plan.output_bytes());
    EXPECT_EQ(maxima->scratch_bytes(), 0u);
    const auto settled = SettledPlan(row.plan, NoMaxima(row.plan));
    ASSERT_THAT(settled, IsOk());
    EXPECT_EQ(settled->output_bytes(), row.plan.output_bytes());
    EXPECT_LE(settled->scratch_bytes(), row.plan.scratch_bytes());
    for (size_t i = 0; i < row.plan.outputs().size(); ++i) {
      EXPECT_EQ(settled->outputs()[i].offset, row.plan.outputs()[i].offset);
      EXPECT_EQ(settled->outputs()[i].kind, row.plan.outputs()[i].kind);
    }
    ++count;
  });
  EXPECT_GT(count, 500);
}

}  // namespace
}  // namespace quantd
