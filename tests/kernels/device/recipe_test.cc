// The recipes of plans: the steps that are the same on every device.
#include "kernels/device/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "tests/kernels/device/plan_rows.h"

namespace quantd {
namespace {

using From = AmaxOutput::From;
using testing::ElementsAre;
using testing::IsEmpty;

Plan Quantize(const QuantizeOptions& o, int64_t rows = 256) {
  const absl::StatusOr<Plan> plan =
      MakeQuantizePlan({.dtype = DType::kBF16, .shape = {rows, 512}}, o);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

QuantizeOptions Nvfp4Both() {
  QuantizeOptions o;
  o.format = Format::kNvfp4;
  o.usage = Usage::kBoth;
  return o;
}

std::vector<From> Sources(const Recipe& r) {
  std::vector<From> sources;
  for (const AmaxOutput& amax : r.amaxes) sources.push_back(amax.from);
  return sources;
}

TEST(RecipeTest, TheAmaxIsThatOfTheEncodedValues) {
  QuantizeOptions o = Nvfp4Both();
  o.rht.columnwise = true;
  o.rht.dimension = 32;
  const Plan plan = Quantize(o);
  const Recipe r = MakeRecipe(plan);
  EXPECT_THAT(Sources(r), ElementsAre(From::kPlain, From::kRotatedColumns));
  EXPECT_TRUE(r.search.plain);
  EXPECT_FALSE(r.search.rotated[0]);
  EXPECT_TRUE(r.search.rotated[1]);
  EXPECT_EQ(r.copies[0].rotation, 0);
  EXPECT_EQ(r.copies[1].rotation, 32);
  ASSERT_TRUE(r.rotation.has_value());
  EXPECT_EQ(r.rotation->dimension, 32);
}

TEST(RecipeTest, AnEstimateNeedsOnlyThePlainMaxima) {
  QuantizeOptions o = Nvfp4Both();
  o.rht.rowwise = o.rht.columnwise = true;
  o.nvfp4.amax_estimation_scale = 2.0f;
  const Plan plan = Quantize(o);
  const Recipe r = MakeRecipe(plan);
  EXPECT_THAT(Sources(r), ElementsAre(From::kPlain, From::kPlain));
  EXPECT_EQ(r.amaxes[1].source.factor, 2.0f);
  EXPECT_FALSE(r.search.rotates());
  EXPECT_TRUE(r.copies_rotate());
}

TEST(RecipeTest, AGivenAmaxIsNotSearchedForAndServesBothUnrotatedCopies) {
  QuantizeOptions o = Nvfp4Both();
  o.rowwise_amax = {3.0f};
  const Plan plan = Quantize(o);
  const Recipe r = MakeRecipe(plan);
  EXPECT_THAT(Sources(r), ElementsAre(From::kGiven, From::kGiven));
  EXPECT_THAT(r.amaxes[1].source.values(), ElementsAre(3.0f));
  EXPECT_FALSE(r.search.any());
}

TEST(RecipeTest, EveryLineHasItsOwnAmax) {
  QuantizeOptions o = Nvfp4Both();
  o.form.row_scaled = true;
  const Plan plan = Quantize(o);
  const Recipe r = MakeRecipe(plan);
  ASSERT_EQ(r.amaxes.size(), 2u);
  EXPECT_TRUE(r.amaxes[0].lines);
  EXPECT_FALSE(r.amaxes[0].columnwise);
  EXPECT_TRUE(r.amaxes[1].lines);
  EXPECT_TRUE(r.amaxes[1].columnwise);
  EXPECT_TRUE(r.search.lines);
}

TEST(RecipeTest, DelayedScalingGivesTheScaleAndStillFindsTheAmax) {
  QuantizeOptions o;
  o.format = Format::kFp8E4M3;
  o.fp8.scale = {2.0f};
  o.fp8.history = HistoryOptions{.amax = {1.0f, 2.0f}};
  const Plan plan = Quantize(o);
  const Recipe r = MakeRecipe(plan);
  EXPECT_TRUE(r.copies[0].wanted);
  EXPECT_FALSE(r.copies[1].wanted);
  EXPECT_EQ(r.copies[0].scale, TensorScale::kGiven);
  EXPECT_TRUE(r.history);
  EXPECT_THAT(Sources(r), ElementsAre(From::kPlain, From::kPlain));
  EXPECT_EQ(r.amaxes[1].kind, TensorKind::kNextScale);
  o.fp8.scale.clear();
  o.fp8.history.reset();
  const Plan current = Quantize(o);
  EXPECT_EQ(MakeRecipe(current).copies[0].scale, TensorScale::kAmax);
}

TEST(RecipeTest, WithoutEncodedCopiesTheSearchStillFindsNan) {
  QuantizeOptions o;
  o.format = Format::kMxfp8E4M3;
  const Plan plan = Quantize(o);
  EXPECT_THAT(MakeRecipe(plan).amaxes, IsEmpty());
  EXPECT_FALSE(MakeRecipe(plan).search.any());
  o.usage = Usage::kNone;
  o.dbias = true;
  const Plan none = Quantize(o);
  EXPECT_TRUE(MakeRecipe(none).search.plain);
}

TEST(RecipeTest, RefusesOnlyValuesThatThePolicyRejects) {
  QuantizeOptions o = Nvfp4Both();
  const Plan ignore = Quantize(o);
  EXPECT_TRUE(CheckFinite(MakeRecipe(ignore), true, true).ok());
  o.non_finite = NonFinite::kReject;
  const Plan reject = Quantize(o);
  const Recipe r = MakeRecipe(reject);
  EXPECT_TRUE(CheckFinite(r, false, false).ok());
  EXPECT_THAT(std::string(CheckFinite(r, true, true).message()),
              testing::HasSubstr("NaN"));
  EXPECT_THAT(std::string(CheckFinite(r, false, true).message()),
              testing::HasSubstr("Inf"));
}

// Every amax of the output has one source, in the order of the outputs, and the
// search finds the maxima that the sources need.
TEST(RecipeTest, EveryAmaxOfEveryPlanHasASource) {
  const std::set<TensorKind> kinds = {
      TensorKind::kRowwiseAmax,    TensorKind::kColumnwiseAmax,
      TensorKind::kRowwiseRhtAmax, TensorKind::kColumnwiseRhtAmax,
      TensorKind::kAmax,           TensorKind::kNextScale};
  size_t rows = 0;
  const auto check = [&](const Plan& plan, const std::string& label) {
    std::set<TensorKind> wanted, got;
    for (const TensorSpec& spec : plan.outputs()) {
      if (kinds.contains(spec.kind)) wanted.insert(spec.kind);
    }
    const Recipe r = MakeRecipe(plan);
    for (const AmaxOutput& amax : r.amaxes) {
      EXPECT_TRUE(got.insert(amax.kind).second) << label;
      const bool found = amax.from == From::kGiven ||
                         (amax.lines ? r.search.lines : r.search.any());
      EXPECT_TRUE(found) << label;
      if (amax.from == From::kPlain && !amax.lines) {
        EXPECT_TRUE(r.search.plain) << label;
      }
    }
    EXPECT_EQ(got, wanted) << label;
    EXPECT_TRUE(r.rotation || !r.search.rotates()) << label;
    EXPECT_TRUE(r.rotation || !r.copies_rotate()) << label;
    ++rows;
  };
  ForQuantizeRows(
      3, [&](const QuantizeRow& row) { check(row.plan, row.settings); });
  ForRhtAmaxRows([&](const PlanRow& row) { check(row.plan, row.settings); });
  EXPECT_GT(rows, 5000u);
}

}  // namespace
}  // namespace quantd
