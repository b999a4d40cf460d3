// Repairs models and examines the results.
#ifndef QUANTD_TESTS_CLIENT_CHECKPOINT_REPAIR_FIXTURE_H_
#define QUANTD_TESTS_CLIENT_CHECKPOINT_REPAIR_FIXTURE_H_

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "client/checkpoint/check/compare.h"
#include "client/checkpoint/lint/lint.h"
#include "client/checkpoint/repair/repair.h"
#include "tests/client/checkpoint/model_fixture.h"
#include "tests/client/checkpoint/planted.h"

namespace quantd::checkpoint {

inline constexpr auto kCt = Nvfp4Names::kCompressedTensors;
inline constexpr auto kMo = Nvfp4Names::kModelOpt;

class RepairTest : public ModelFixture {
 protected:
  struct Outcome {
    RepairPlan plan;  // of the first pass
    std::vector<Repaired> repairs;
    std::vector<FittedWeight> fitted;
    std::vector<Finding> left;
  };
  // Repairs `model` and writes the result to "mended".
  Outcome Mended(const Model& model, const Model* original = nullptr,
                 Dialect dialect = Dialect::kNone) {
    std::filesystem::remove_all(At("mended"));
    Outcome out;
    auto plan = PlanRepair(model, original, dialect);
    EXPECT_THAT(plan, IsOk());
    out.plan = *std::move(plan);
    if (out.plan.repairs.empty()) {
      EXPECT_THAT(Repair(model, out.plan, At("mended")), IsOk());
    } else {
      auto outcome = RepairInPasses(model, original, out.plan, At("mended"));
      EXPECT_THAT(outcome, IsOk());
      out.repairs = std::move(outcome->repairs);
      out.fitted = std::move(outcome->fitted);
    }
    const auto mended = Model::Open(At("mended"));
    EXPECT_THAT(mended, IsOk());
    auto left = Lint(*mended, original);
    EXPECT_THAT(left, IsOk());
    out.left = left->findings;
    return out;
  }
  // Returns the lowest SQNR of "mended" compared with the clean model, in dB.
  double LeastDb(const std::string& clean) const {
    const auto a = Model::Open(clean);
    const auto b = Model::Open(At("mended"));
    EXPECT_THAT(a, IsOk());
    EXPECT_THAT(b, IsOk());
    const auto result = CompareModels(*a, *b);
    EXPECT_THAT(result, IsOk());
    EXPECT_THAT(result->only_a, testing::IsEmpty());
    EXPECT_THAT(result->only_b, testing::IsEmpty());
    EXPECT_THAT(result->tensors, testing::SizeIs(6));
    double least = INFINITY;
    for (const auto& d : result->tensors) least = std::min(least, d.sqnr_db);
    return least;
  }
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_TESTS_CLIENT_CHECKPOINT_REPAIR_FIXTURE_H_
