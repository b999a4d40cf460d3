// Tests of layers that engines build without a name.
#include "client/checkpoint/anatomy/nameless.h"

#include "client/checkpoint/convert/config_writer.h"
#include "client/checkpoint/pattern.h"
#include "client/checkpoint/plan.h"
#include "tests/client/checkpoint/model_fixture.h"
#include "tests/client/checkpoint/model_writer.h"

namespace quantd::checkpoint {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using Names = std::vector<std::string>;

class NamelessTest : public ModelFixture {
 protected:
  // Converts two layers of attention and MLP, and the matrices of `more`.
  absl::StatusOr<Names> Ignored(const std::string& name, const Names& more,
                                const Selection& selection) {
    std::vector<WrittenTensor> tensors;
    const auto add = [&](const std::string& module) {
      tensors.push_back(Bf16(module + ".weight", {128, 128}));
    };
    for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
      for (const char* leaf : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
        add(std::string(layer) + "self_attn." + leaf);
      }
      for (const char* leaf : {"gate_proj", "up_proj", "down_proj"}) {
        add(std::string(layer) + "mlp." + leaf);
      }
    }
    for (const std::string& module : more) add(module);
    std::filesystem::remove_all(dir_ / name);
    WriteModel(dir_ / name,
               {{"architectures", {name}}, {"num_hidden_layers", 2}},
               {tensors});
    const auto model = Model::Open(dir_ / name);
    if (!model.ok()) return model.status();
    const auto plan = MakeConversionPlan(*model, selection);
    if (!plan.ok()) return plan.status();
    const ModelJson config =
        ModelJson::parse(ConfigFiles(*model, *plan).back().text);
    const ModelJson& said = config.at("quantization_config");
    return said.value("ignore", Names());
  }
  void ExpectRefused(const std::string& name, const Names& more,
                     const Selection& selection, const std::string& words) {
    EXPECT_THAT(Ignored(name, more, selection), Refused(HasSubstr(words)))
        << name;
  }
};

Selection Of(Dialect dialect, WeightFormat format) { return {dialect, format}; }

TEST_F(NamelessTest, ListsTheEmptyNameOnlyForPlainLayers) {
  const Names score = {"score.0", "score.2"};
  const auto ignored = [&](const char* name, const Names& more,
                           const Selection& selection = {}) {
    auto list = Ignored(name, more, selection);
    EXPECT_THAT(list, IsOk()) << name;
    return list.ok() ? *std::move(list) : Names();
  };
  EXPECT_THAT(ignored("Qwen2ForProcessRewardModel", score), Contains("re:^$"));
  EXPECT_THAT(ignored("Lfm2VlForConditionalGeneration",
                      {"model.multi_modal_projector.linear_1"}),
              Contains("re:^$"));
  Selection all;
  all.include = {"score.*"};
  EXPECT_THAT(ignored("Qwen2ForProcessRewardModel", score, all),
              Not(Contains("re:^$")));
  EXPECT_THAT(ignored("DeepseekForCausalLM", {}), Not(Contains("re:^$")));
  EXPECT_THAT(ignored("SolarForCausalLM", {"lm_head"}), Not(Contains("re:^$")));
  EXPECT_THAT(ignored("LlamaForCausalLM", score), Not(Contains("re:^$")));
}

// Engines look up the experts as experts.0.down_proj and so on.
TEST_F(NamelessTest, ExpressionsDoNotMatchEnginesNamesOfExperts) {
  const std::string block = "model.layers.1.zaya_block.";
  Selection selection;
  selection.ignore = {"*.mlp.*"};
  ASSERT_OK_AND_ASSIGN(const auto list,
                       Ignored("ZayaForCausalLM",
                               {block + "router.down_proj",
                                block + "experts.local_experts.0.linear_fc1",
                                block + "experts.local_experts.0.linear_fc2"},
                               selection));
  ASSERT_OK_AND_ASSIGN(const auto patterns, ParsePatterns(list));
  EXPECT_NE(FirstMatch(patterns, block + "router.down_proj"), nullptr);
  EXPECT_EQ(FirstMatch(patterns, block + "experts.0.down_proj"), nullptr);
}

TEST_F(NamelessTest, RefusesWhatNoListCanState) {
  Selection some;
  some.ignore = {"*layers.0.*"};
  ExpectRefused("DeepseekForCausalLM", {}, some,
                "_proj of "
                "DeepseekForCausalLM without a name");
  Selection mixed;
  mixed.rules = {"*0.self_attn*=fp8_dynamic"};
  ExpectRefused("DeepseekForCausalLM", {}, mixed,
                "give it the format of most weights");
  Selection head;
  head.include = {"lm_head"};
  ExpectRefused("SolarForCausalLM", {"lm_head"}, head, "leave it unquantized");
}

TEST_F(NamelessTest, RefusesDialectsWhoseListsNeedNames) {
  const auto own = Of(Dialect::kModelOpt, WeightFormat::kMxfp8);
  const auto blocks = Of(Dialect::kDeepSeek, WeightFormat::kFp8Block);
  const std::string remedy = "use --dialect compressed-tensors";
  ExpectRefused("Qwen2ForRewardModel", {"score.0"}, own, remedy);
  ExpectRefused("Qwen2ForRewardModel", {"score.0"}, blocks, remedy);
  ExpectRefused("SolarForCausalLM", {"lm_head"}, own, remedy);
  // Tied heads are in no file.
  ExpectRefused("ExaoneMoeForCausalLM", {}, own, remedy);
  EXPECT_THAT(Ignored("SolarForCausalLM", {"lm_head"}, blocks), IsOk());
  EXPECT_THAT(Ignored("LlamaForCausalLM", {"lm_head"}, own), IsOk());
}

// vLLM compares DeepSeek's list for equality, but renames or fuses layers.
TEST_F(NamelessTest, DeepSeeksListIsForClassesWhoseNamesItHas) {
  const auto blocks = Of(Dialect::kDeepSeek, WeightFormat::kFp8Block);
  const Names tower = {"visual.blocks.0.mlp.gate_proj"};
  ExpectRefused("Glm4vForConditionalGeneration", tower, blocks,
                "visual.blocks.0.mlp.gate_proj stays unquantized");
  EXPECT_THAT(Ignored("Glm4vForConditionalGeneration", tower, {}), IsOk());
  EXPECT_THAT(Ignored("Qwen3VLForConditionalGeneration", tower, blocks),
              IsOk());
  EXPECT_THAT(Ignored("Olmo3ForCausalLM", {"lm_head"}, blocks), IsOk());
  Selection some = blocks;
  some.ignore = {"*layers.0.*"};
  ExpectRefused("Olmo3ForCausalLM", {}, some, "use --dialect");
}

}  // namespace
}  // namespace quantd::checkpoint
