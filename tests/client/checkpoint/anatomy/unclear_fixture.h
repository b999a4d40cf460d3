// Plans the conversion of a Llama with additional tensors, from file headers
// alone.
#ifndef QUANTD_TESTS_CLIENT_CHECKPOINT_ANATOMY_UNCLEAR_FIXTURE_H_
#define QUANTD_TESTS_CLIENT_CHECKPOINT_ANATOMY_UNCLEAR_FIXTURE_H_

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/checkpoint/convert/config_writer.h"
#include "client/checkpoint/plan.h"
#include "tests/client/checkpoint/model_fixture.h"
#include "tests/client/checkpoint/model_writer.h"

namespace quantd::checkpoint {

inline WrittenTensor Zeros(const std::string& name, const std::string& dtype,
                           std::vector<int64_t> shape) {
  size_t bits = static_cast<size_t>(safetensors::BitsOf(dtype));
  for (const int64_t d : shape) bits *= static_cast<size_t>(d);
  return {name, dtype, std::move(shape), std::vector<std::byte>(bits / 8)};
}

class UnclearTest : public ModelFixture {
 protected:
  // Plans the conversion of a Llama that has `more` in its second shard.
  absl::StatusOr<ConversionPlan> Plan(std::vector<WrittenTensor> more,
                                      const Selection& selection = {},
                                      const ModelJson& config = LlamaConfig()) {
    std::filesystem::remove_all(dir_ / "m");
    auto shards = LlamaShards();
    for (WrittenTensor& t : more) shards[1].push_back(std::move(t));
    WriteModel(dir_ / "m", config, shards);
    return PlanAgain(selection);
  }
  absl::StatusOr<ConversionPlan> PlanAgain(const Selection& selection) {
    return ModelFixture::Plan(selection);
  }
  static std::string Error(const absl::StatusOr<ConversionPlan>& plan) {
    EXPECT_THAT(plan, StatusIs(absl::StatusCode::kInvalidArgument));
    return std::string(plan.status().message());
  }
  static const LeftOut* Left(const ConversionPlan& plan,
                             std::string_view module) {
    for (const LeftOut& left : plan.left_out) {
      if (left.module == module) return &left;
    }
    return nullptr;
  }
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_TESTS_CLIENT_CHECKPOINT_ANATOMY_UNCLEAR_FIXTURE_H_
