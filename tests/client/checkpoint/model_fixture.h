// A directory for models, and the plan for the one in "m".
#ifndef QUANTD_TESTS_CLIENT_CHECKPOINT_MODEL_FIXTURE_H_
#define QUANTD_TESTS_CLIENT_CHECKPOINT_MODEL_FIXTURE_H_

#include <string>
#include <string_view>
#include <utility>

#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"
#include "tests/client/temp_dir.h"
#include "tests/testing/matchers.h"

namespace quantd::checkpoint {

class ModelFixture : public testing::Test {
 protected:
  std::string At(std::string_view name) const { return dir_ / name; }
  // Keeps the model, to which the plan refers.
  absl::StatusOr<ConversionPlan> Plan(const Selection& selection = {}) {
    auto model = Model::Open(At("m"));
    if (!model.ok()) return model.status();
    model_ = *std::move(model);
    return MakeConversionPlan(model_, selection);
  }
  static const safetensors::Tensor* Output(const ConversionPlan& plan,
                                           std::string_view name) {
    for (const OutputShard& shard : plan.shards) {
      for (const safetensors::Tensor& t : shard.tensors) {
        if (t.name == name) return &t;
      }
    }
    return nullptr;
  }
  TempDir dir_;
  Model model_;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_TESTS_CLIENT_CHECKPOINT_MODEL_FIXTURE_H_
