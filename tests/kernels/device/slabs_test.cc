// Slabs of a job give the bytes of the whole, and every plan whose rows are
// independent can be cut into slabs.
#include "kernels/device/slabs.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "kernels/device/devices.h"
#include "kernels/device/recipe.h"
#include "tests/kernels/device/plan_rows.h"

namespace quantd {
namespace {

// Three slabs; the last one is cut off in the middle of a block.
constexpr int64_t kRows = 300;

struct Made {
  JobReport report;
  std::vector<std::vector<std::byte>> outputs;
};

class SlabsTest : public testing::Test {
 protected:
  SlabsTest() : backend_(*OpenBackend("cpu", {.memory_limit = 64 << 20})) {}

  // Fills the plan's inputs; a few values are NaN or Inf.
  std::vector<std::vector<std::byte>> InputsOf(const Plan& plan) {
    std::vector<std::vector<std::byte>> inputs;
    for (const TensorSpec& spec : plan.inputs()) {
      std::vector<std::byte> bytes(spec.size);
      for (std::byte& b : bytes) {
        seed_ = seed_ * 1664525 + 1013904223;
        b = static_cast<std::byte>(seed_ >> 24);
      }
      inputs.push_back(std::move(bytes));
    }
    return inputs;
  }

  static std::vector<std::vector<std::byte>> OutputsOf(const Plan& plan) {
    std::vector<std::vector<std::byte>> outputs;
    for (const TensorSpec& spec : plan.outputs()) {
      outputs.emplace_back(spec.size, std::byte{0xA5});
    }
    return outputs;
  }

  absl::StatusOr<JobReport> Run(const Plan& plan, LentMemory lent) {
    auto job =
        backend_->Begin(std::make_shared<const Plan>(plan), std::move(lent));
    if (!job.ok()) return job.status();
    return (*job)->Run();
  }

  // Returns whether the plan can be cut; if so, runs the slabs and compares
  // them with the whole.
  bool Compare(const Plan& plan, const std::string& what) {
    const Recipe recipe = MakeRecipe(plan);
    const std::vector<Slab> slabs =
        CutIntoSlabs(plan, recipe, plan.input_bytes() / 3 + 1);
    if (slabs.empty()) return false;
    EXPECT_EQ(slabs.size(), 3u) << what;
    const auto inputs = InputsOf(plan);
    auto whole = OutputsOf(plan);
    auto parts = OutputsOf(plan);
    LentMemory lent;
    lent.inputs.assign(inputs.begin(), inputs.end());
    for (auto& output : whole) lent.outputs.push_back(absl::MakeSpan(output));
    const auto want = Run(plan, lent);
    EXPECT_TRUE(want.ok()) << what << ": " << want.status();
    bool saw_nan = false;
    for (const Slab& slab : slabs) {
      LentMemory of_slab;
      for (size_t i = 0; i < inputs.size(); ++i) {
        of_slab.inputs.push_back(absl::MakeConstSpan(inputs[i]).subspan(
            slab.inputs[i], slab.plan.inputs()[i].size));
      }
      for (size_t i = 0; i < parts.size(); ++i) {
        of_slab.outputs.push_back(absl::MakeSpan(parts[i]).subspan(
            slab.outputs[i], slab.plan.outputs()[i].size));
      }
      const auto got = Run(slab.plan, of_slab);
      EXPECT_TRUE(got.ok()) << what << ": " << got.status();
      if (got.ok()) saw_nan = saw_nan || got->saw_nan;
    }
    if (want.ok()) {
      EXPECT_EQ(saw_nan, want->saw_nan) << what;
    }
    EXPECT_EQ(parts, whole) << what;
    return true;
  }

  std::unique_ptr<Backend> backend_;
  uint32_t seed_ = 1;
};

TEST_F(SlabsTest, Quantize) {
  std::map<std::string, int> cut;
  int all = 0;
  ForQuantizeRows(2, [&](const QuantizeRow& row) {
    if (row.plan.rows() > kRows || row.plan.cols() > 1024) return;
    QuantizeOptions o = std::get<QuantizeOptions>(row.plan.options());
    if (o.non_finite == NonFinite::kReject) return;
    // (Plans with numbers for exactly 256 rows are skipped.)
    const auto plan =
        MakeQuantizePlan({row.dtype, {kRows, row.plan.cols()}, -1}, o);
    if (!plan.ok()) return;
    ++all;
    if (Compare(*plan,
                std::string(Name(row.format.format)) + ", " + row.settings)) {
      ++cut[std::string(Name(row.format.format))];
      EXPECT_EQ(row.usage, Usage::kRowwise);
    }
  });
  EXPECT_GT(all, 1000);
  // In every format rows are independent if the amax is given or the format has
  // none. The exception is blocks of 1 x 128, whose scales are stored column by
  // column.
  for (const FormatSpec& format : kFormats) {
    const bool apart = format.scaling != Scaling::kBlock || format.square;
    EXPECT_EQ(cut[std::string(Name(format.format))] > 0, apart)
        << Name(format.format);
  }
}

TEST_F(SlabsTest, Dequantize) {
  int cut = 0;
  ForDequantizeRows([&](const PlanRow& row) {
    const auto& o = std::get<DequantizeOptions>(row.plan.options());
    const auto plan = MakeDequantizePlan(
        {row.plan.tensor().dtype, {kRows, row.plan.cols()}, -1}, o);
    if (!plan.ok()) return;
    const bool has_slabs = Compare(*plan, row.format + ", " + row.settings);
    EXPECT_TRUE(!has_slabs || o.usage == Usage::kRowwise);
    cut += has_slabs;
  });
  EXPECT_GT(cut, 20);
}

TEST_F(SlabsTest, ApplyRht) {
  int cut = 0;
  ForApplyRhtRows([&](const PlanRow& row) {
    const auto& o = std::get<ApplyRhtOptions>(row.plan.options());
    const auto plan = MakeApplyRhtPlan(
        {row.plan.tensor().dtype, {kRows, row.plan.cols()}, -1}, o);
    if (plan.ok()) cut += Compare(*plan, row.settings);
  });
  EXPECT_GT(cut, 5);
}

// A maximum over the whole tensor cannot be found in slabs.
TEST_F(SlabsTest, RhtAmaxCannotBeCut) {
  ForRhtAmaxRows([&](const PlanRow& row) {
    EXPECT_FALSE(Compare(row.plan, row.settings));
  });
}

// Leading dimensions are cut like rows.
TEST_F(SlabsTest, TensorsOfManyDimensionsAreCut) {
  QuantizeOptions o;
  o.format = Format::kMxfp8E4M3;
  const auto plan = MakeQuantizePlan({DType::kBF16, {3, 100, 64}, -1}, o);
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(Compare(*plan, "3 x 100 x 64"));
}

}  // namespace
}  // namespace quantd
