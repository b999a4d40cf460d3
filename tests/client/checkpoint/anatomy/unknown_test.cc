// Tests that modules not known as linear layers are left unquantized and
// reported.
#include "tests/client/checkpoint/anatomy/unclear_fixture.h"

namespace quantd::checkpoint {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

using UnknownTest = UnclearTest;

TEST_F(UnknownTest, LeavesOutAndReportsUnknownLayers) {
  const std::string l = "model.layers.0.laurel.linear_left";
  const auto plan = Plan({Bf16(l + ".weight", {64, 128})});
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->weights(), 14u);
  ASSERT_NE(Left(*plan, l), nullptr);
  EXPECT_THAT(plan->notes,
              Contains(AllOf(HasSubstr("% of the model"),
                             HasSubstr("model.layers.#.laurel.linear_left"),
                             HasSubstr("--include"))));
  EXPECT_THAT(ConfigFiles(model_, *plan).back().text, HasSubstr("linear_left"));
  EXPECT_EQ(PlanAgain({.include = {"*laurel*"}})->weights(), 15u);
  EXPECT_THAT(PlanAgain({.ignore = {"*laurel*"}})->notes, testing::IsEmpty());
}

// ProphetNet's position embeddings have a name that engines look for among
// linear layers.
TEST_F(UnknownTest, ListsAMatrixNamedLikeAnEmbedding) {
  const std::string table = "model.layers.0.self_attn.relative_pos_embeddings";
  const auto plan = Plan({Bf16(table + ".weight", {64, 128})});
  ASSERT_THAT(plan, IsOk());
  EXPECT_THAT(ConfigFiles(model_, *plan).back().text,
              AllOf(HasSubstr("relative_pos_embeddings"),
                    testing::Not(HasSubstr("embed_tokens"))));
}

TEST_F(UnknownTest, RefusesModelsOfUnknownClasses) {
  for (const ModelJson& said : {ModelJson{{"architectures", {"Gr00tPolicy"}}},
                                ModelJson{{"architectures", {"HubertForCTC"}}},
                                ModelJson{{"type", "act"}},
                                ModelJson{{"_class_name", "AutoencoderKL"}}}) {
    SCOPED_TRACE(said.dump());
    ModelJson config = LlamaConfig();
    config.erase("architectures");
    config.erase("model_type");
    config.update(said);
    EXPECT_THAT(Error(Plan({}, {}, config)),
                AllOf(HasSubstr("quantctl does not know"),
                      HasSubstr("model.layers.#.mlp.down_proj"),
                      HasSubstr("--include")));
    const auto named = PlanAgain({.include = {"*.mlp.*"}});
    ASSERT_THAT(named, IsOk());
    EXPECT_EQ(named->weights(), 6u);
    EXPECT_THAT(named->notes, Contains(HasSubstr("self_attn.q_proj")));
  }
  // Without a class, names decide. Image models have these names, too.
  const auto bare = [&](std::vector<WrittenTensor> more) {
    ModelJson config = LlamaConfig();
    config.erase("architectures");
    config.erase("model_type");
    return Plan(std::move(more), {}, config);
  };
  EXPECT_THAT(bare({}), IsOk());
  for (const char* name : {"model.memory.0.weight", "blocks.0.attn.qkv.weight"})
    EXPECT_THAT(Error(bare({Bf16(name, {64, 128})})),
                HasSubstr("names no model class"));
}

// GPT-2 stores weights as K x N, also inside other models.
TEST_F(UnknownTest, LeavesOutWeightsStoredAsKRows) {
  const std::string a = "decoder.transformer.h.0.attn.c_attn";
  ModelJson config = {{"architectures", {"VisionEncoderDecoderModel"}},
                      {"model_type", "vision-encoder-decoder"},
                      {"decoder", {{"model_type", "gpt2"}}}};
  const auto plan = Plan({Bf16(a + ".weight", {128, 384})}, {}, config);
  ASSERT_THAT(plan, IsOk());
  ASSERT_NE(Left(*plan, a), nullptr);
  EXPECT_THAT(Left(*plan, a)->reason, HasSubstr("Conv1D"));
}

}  // namespace
}  // namespace quantd::checkpoint
