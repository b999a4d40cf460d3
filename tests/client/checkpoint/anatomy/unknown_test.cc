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
  ASSERT_OK_AND_ASSIGN(const auto plan, Plan({Bf16(l + ".weight", {64, 128})}));
  EXPECT_EQ(plan.weights(), 14u);
  ASSERT_NE(Left(plan, l), nullptr);
  EXPECT_THAT(plan.notes,
              Contains(AllOf(HasSubstr("% of the model"),
                             HasSubstr("model.layers.#.laurel.linear_left"),
                             HasSubstr("--include"))));
  EXPECT_THAT(ConfigFiles(model_, plan).back().text, HasSubstr("linear_left"));
  EXPECT_EQ(PlanAgain({.include = {"*laurel*"}})->weights(), 15u);
  EXPECT_THAT(PlanAgain({.ignore = {"*laurel*"}})->notes, testing::IsEmpty());
}

// ProphetNet's position embeddings have a name that engines look for among
// linear layers.
TEST_F(UnknownTest, ListsAMatrixNamedLikeAnEmbedding) {
  const std::string table = "model.layers.0.self_attn.relative_pos_embeddings";
  ASSERT_OK_AND_ASSIGN(const auto plan,
                       Plan({Bf16(table + ".weight", {64, 128})}));
  EXPECT_THAT(ConfigFiles(model_, plan).back().text,
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
    ASSERT_OK_AND_ASSIGN(const auto named, PlanAgain({.include = {"*.mlp.*"}}));
    EXPECT_EQ(named.weights(), 6u);
    EXPECT_THAT(named.notes, Contains(HasSubstr("self_attn.q_proj")));
  }
  // Without a class, the names of the tensors decide. The two names below are
  // not specific to language models.
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
TEST_F(UnknownTest, LeavesOutWeightsStoredAsKByN) {
  const std::string a = "decoder.transformer.h.0.attn.c_attn";
  ModelJson config = {{"architectures", {"VisionEncoderDecoderModel"}},
                      {"model_type", "vision-encoder-decoder"},
                      {"decoder", {{"model_type", "gpt2"}}}};
  ASSERT_OK_AND_ASSIGN(const auto plan,
                       Plan({Bf16(a + ".weight", {128, 384})}, {}, config));
  ASSERT_NE(Left(plan, a), nullptr);
  EXPECT_THAT(Left(plan, a)->reason, HasSubstr("Conv1D"));
}

// Engines split kv_b_proj while they load it, and some read its packed codes as
// numbers.
TEST_F(UnknownTest, LatentAttentionsMatrixIsNotQuantizedToFourBits) {
  using W = WeightFormat;
  const std::string b = "model.layers.0.self_attn.kv_b_proj";
  const std::string a = "model.layers.0.self_attn.kv_a_proj_with_mqa";
  ASSERT_THAT(
      Plan({Bf16(a + ".weight", {64, 128}), Bf16(b + ".weight", {128, 128})}),
      IsOk());
  for (const auto& [dialect, format] :
       {std::pair(Dialect::kCompressedTensors, W::kNvfp4),
        std::pair(Dialect::kCompressedTensors, W::kNvfp4FourOverSix),
        std::pair(Dialect::kCompressedTensors, W::kMxfp4),
        std::pair(Dialect::kModelOpt, W::kNvfp4)}) {
    SCOPED_TRACE(Name(format));
    ASSERT_OK_AND_ASSIGN(const auto plan, PlanAgain({.dialect = dialect,
                                                     .format = format,
                                                     .include = {"*_proj"}}));
    EXPECT_EQ(plan.weights(), 15u);
    ASSERT_NE(Left(plan, b), nullptr);
    EXPECT_THAT(Left(plan, b)->kind, HasSubstr("latent attention"));
    EXPECT_THAT(Left(plan, b)->reason, HasSubstr("=fp8_dynamic"));
    EXPECT_THAT(ConfigFiles(model_, plan).back().text, HasSubstr("kv_b_proj"));
  }
  for (const W format : {W::kFp8, W::kFp8Dynamic, W::kFp8Block, W::kMxfp8}) {
    ASSERT_OK_AND_ASSIGN(const auto plan, PlanAgain({.format = format}));
    EXPECT_EQ(Left(plan, b), nullptr) << Name(format);
  }
  ASSERT_OK_AND_ASSIGN(const auto ruled,
                       PlanAgain({.rules = {"*kv_b_proj=fp8_dynamic"}}));
  EXPECT_EQ(Left(ruled, b), nullptr);
}

// SGLang reorders the rows of these weights of Llama 4, but not their scales.
TEST_F(UnknownTest, KeepsReorderedQueriesAndKeysOfLlama4) {
  using W = WeightFormat;
  ModelJson config = LlamaConfig();
  config["model_type"] = "llama4_text";
  ASSERT_THAT(Plan({}, {}, config), IsOk());
  const std::string attention = "model.layers.0.self_attn.";
  for (const W format : {W::kNvfp4, W::kFp8Dynamic, W::kFp8Block, W::kMxfp8}) {
    SCOPED_TRACE(Name(format));
    ASSERT_OK_AND_ASSIGN(const auto plan, PlanAgain({.format = format}));
    // Engines fuse the three.
    for (const char* leaf : {"q_proj", "k_proj", "v_proj"}) {
      EXPECT_NE(Left(plan, attention + leaf), nullptr) << leaf;
    }
    EXPECT_THAT(Left(plan, attention + "q_proj")->kind, HasSubstr("reorder"));
    ASSERT_OK_AND_ASSIGN(
        const auto named,
        PlanAgain({.format = format, .include = {"*.self_attn.*"}}));
    EXPECT_EQ(Left(named, attention + "q_proj") != nullptr,
              format == W::kFp8Block);
  }
  ASSERT_OK_AND_ASSIGN(const auto whole, PlanAgain({.format = W::kFp8}));
  EXPECT_EQ(Left(whole, attention + "q_proj"), nullptr);
}

// vLLM runs PhiMoE with the names of transformers 5, and builds the tower of
// BLIP-2 without its name.
TEST_F(UnknownTest, ListsRoutersAndTowersUnderTheirNamesInEngines) {
  ModelJson config = LlamaConfig();
  config["model_type"] = "phimoe";
  const std::string moe = "model.layers.0.block_sparse_moe.";
  for (const Dialect dialect :
       {Dialect::kCompressedTensors, Dialect::kModelOpt}) {
    ASSERT_OK_AND_ASSIGN(const auto plan,
                         Plan({Bf16(moe + "gate.weight", {64, 128})},
                              {.dialect = dialect}, config));
    EXPECT_THAT(ConfigFiles(model_, plan).back().text, HasSubstr("router"));
  }
  const ModelJson blip = {{"architectures", {"Blip2ForConditionalGeneration"}},
                          {"model_type", "blip-2"},
                          {"text_config", LlamaConfig()},
                          {"vision_config", ModelJson::object()}};
  const std::string fc = "vision_model.encoder.layers.0.mlp.fc1.weight";
  ASSERT_OK_AND_ASSIGN(const auto plan, Plan({Bf16(fc, {64, 128})}, {}, blip));
  EXPECT_THAT(ConfigFiles(model_, plan).back().text,
              HasSubstr("|projector|encoder"));
}

// ComfyUI writes FP8 with ModelOpt's names and a label.
TEST_F(UnknownTest, DecodingRemovesTheLabelOfComfy) {
  const std::string m = "model.layers.0.mlp.extra_proj";
  ASSERT_OK_AND_ASSIGN(
      const auto plan,
      Plan({Zeros(m + ".weight", "F8_E4M3", {128, 128}),
            Zeros(m + ".weight_scale", "F32", {}),
            Zeros(m + ".comfy_quant", "U8", {27})},
           {.dialect = Dialect::kNone, .format = WeightFormat::kBf16}));
  for (const ModelTensor* t : plan.copies) {
    EXPECT_THAT(t->name(), testing::Not(HasSubstr("extra_proj")));
  }
}

// ComfyUI reads the number of columns of these weights.
TEST_F(UnknownTest, KeepsTheKeysOfCrossAttentionForComfy) {
  const std::string block =
      "model.diffusion_model.input_blocks.4.1.transformer_blocks.0.";
  const Selection comfy = {.dialect = Dialect::kComfy};
  ASSERT_OK_AND_ASSIGN(const auto plan,
                       Plan({Bf16(block + "attn2.to_k.weight", {64, 128}),
                             Bf16(block + "attn2.to_v.weight", {64, 128}),
                             Bf16(block + "attn1.to_k.weight", {64, 128})},
                            comfy, ModelJson::object()));
  ASSERT_NE(Left(plan, block + "attn2.to_k"), nullptr);
  EXPECT_THAT(Left(plan, block + "attn2.to_k")->kind, HasSubstr("measures"));
  EXPECT_EQ(Left(plan, block + "attn1.to_k"), nullptr);
}

// ComfyUI renames the tensors of diffusers without their scales.
TEST_F(UnknownTest, RefusesTheNamesOfDiffusersForComfy) {
  const Selection comfy = {.dialect = Dialect::kComfy};
  const std::string q = "transformer_blocks.0.attn.to_q.weight";
  EXPECT_THAT(
      Error(Plan({Bf16("x_embedder.weight", {64, 64}), Bf16(q, {64, 64})},
                 comfy, ModelJson::object())),
      HasSubstr("original names"));
  // Qwen-Image has the same names in both.
  EXPECT_THAT(Plan({Bf16("img_in.weight", {64, 64}), Bf16(q, {64, 64})}, comfy,
                   ModelJson::object()),
              IsOk());
}

// Engines quantize the layers of Mamba-2, but not of Mamba-1, which has an
// x_proj.
TEST_F(UnknownTest, LeavesOutLayersOfMambaOneButNotOfMambaTwo) {
  for (const std::string mixer :
       {"model.layers.0.mamba", "model.layers.0.mixer"}) {
    SCOPED_TRACE(mixer);
    const auto in = Bf16(mixer + ".in_proj.weight", {64, 128});
    const auto out = Bf16(mixer + ".out_proj.weight", {128, 64});
    ASSERT_OK_AND_ASSIGN(const auto two, Plan({in, out}));
    EXPECT_EQ(two.weights(), 16u);
    ASSERT_OK_AND_ASSIGN(
        const auto one,
        Plan({in, out, Bf16(mixer + ".x_proj.weight", {8, 64})}));
    EXPECT_EQ(one.weights(), 14u);
    for (const char* leaf : {".in_proj", ".out_proj"}) {
      ASSERT_NE(Left(one, mixer + leaf), nullptr);
      EXPECT_THAT(Left(one, mixer + leaf)->kind, HasSubstr("Mamba-1"));
    }
    EXPECT_THAT(ConfigFiles(model_, one).back().text,
                HasSubstr("(in_proj|out_proj|x_proj)$"));
  }
}

TEST_F(UnknownTest, APatternThatNamesNothingIsAnErrorOfUsage) {
  ASSERT_THAT(Plan({}), IsOk());
  const Selection wrong[] = {{.only = {"*.mpl.*"}},
                             {.ignore = {"*.q_proj", "*.mpl.*"}},
                             {.include = {"*.mpl.*"}},
                             {.rules = {"*.mpl.*=bf16"}}};
  const char* options[] = {"--only", "--ignore", "--include", "--rule"};
  for (size_t i = 0; i < std::size(wrong); ++i) {
    EXPECT_THAT(Error(PlanAgain(wrong[i])),
                testing::StartsWith(fmt::format("{} *.mpl.*", options[i])));
  }
  // A tied head is in no file, and a shadowed rule does name something.
  ModelJson tied = LlamaConfig();
  tied["tie_word_embeddings"] = true;
  EXPECT_THAT(Plan({}, {.ignore = {"lm_head"}}, tied), IsOk());
  EXPECT_THAT(PlanAgain({.rules = {"*.mlp.*=bf16", "*.up_proj=mxfp8"}}),
              IsOk());
}

// jina-embeddings-v3 applies adapters in its own code. peft cannot merge them.
TEST_F(UnknownTest, SaysHowToFoldAnAdapterThatTheModelsCodeApplies) {
  const std::string q = "model.layers.0.x.parametrizations.weight.";
  EXPECT_THAT(Error(Plan({Bf16(q + "original", {64, 128}),
                          Bf16(q + "0.lora_A", {4, 128})})),
              AllOf(HasSubstr("remove_parametrizations"),
                    testing::Not(HasSubstr("AutoPeft"))));
}

// Engines make one linear layer of the gates of Kimi's delta attention and its
// queries, keys and values.
TEST_F(UnknownTest, MembersOfAFusedLayerAreAllQuantizedOrNone) {
  const std::string a = "model.layers.0.self_attn.";
  ASSERT_OK_AND_ASSIGN(const auto plan,
                       Plan({Bf16(a + "b_proj.weight", {16, 128}),
                             Bf16(a + "f_a_proj.weight", {64, 128})}));
  EXPECT_EQ(plan.weights(), 11u);
  for (const char* leaf : {"q_proj", "k_proj", "v_proj"}) {
    ASSERT_NE(Left(plan, a + leaf), nullptr);
    EXPECT_THAT(Left(plan, a + leaf)->reason, HasSubstr("engines fuse them"));
  }
  EXPECT_THAT(plan.notes, Contains(AllOf(HasSubstr("model.layers.#"),
                                         HasSubstr("engines fuse them"))));
  ASSERT_OK_AND_ASSIGN(const auto all,
                       PlanAgain({.include = {"*.b_proj", "*.f_a_proj"}}));
  EXPECT_EQ(all.weights(), 16u);
}

// vLLM makes one layer of queries, keys, values and the index of sparse
// attention, and of latent attention and its gate.
TEST_F(UnknownTest, WhatIsFusedWithAPlainIndexOrGateIsPlain) {
  const std::string a = "model.layers.0.self_attn.";
  for (const std::string index :
       {"index_q_proj", "index_k_proj", "indexer.index_qk_proj"}) {
    SCOPED_TRACE(index);
    ASSERT_OK_AND_ASSIGN(const auto plan,
                         Plan({Bf16(a + index + ".weight", {64, 128})}));
    EXPECT_EQ(plan.weights(), 11u);
    EXPECT_NE(Left(plan, a + "q_proj"), nullptr);
    EXPECT_THAT(ConfigFiles(model_, plan).back().text, HasSubstr("qkv_proj"));
  }
  ASSERT_OK_AND_ASSIGN(const auto plan,
                       Plan({Bf16(a + "q_a_proj.weight", {64, 128}),
                             Bf16(a + "kv_a_proj_with_mqa.weight", {64, 128}),
                             Bf16(a + "g_proj.weight", {128, 128})}));
  EXPECT_EQ(plan.weights(), 14u);
  EXPECT_NE(Left(plan, a + "q_a_proj"), nullptr);
  EXPECT_THAT(ConfigFiles(model_, plan).back().text,
              HasSubstr("|fused_qkv_a_g_proj|"));
  EXPECT_EQ(Left(plan, a + "q_proj"), nullptr);
}

// SGLang looks for Ling's g_proj under the name output_gate.
TEST_F(UnknownTest, ListsTheNamesThatEnginesGiveToPlainLayers) {
  const std::string a = "model.layers.0.attention.";
  ASSERT_OK_AND_ASSIGN(const auto plan,
                       Plan({Bf16(a + "g_proj.weight", {128, 128}),
                             Bf16(a + "query_key_value.weight", {384, 128}),
                             Bf16(a + "dense.weight", {128, 128})},
                            {.ignore = {"*.attention.*"}}));
  const std::string text = ConfigFiles(model_, plan).back().text;
  for (const char* name : {"output_gate", "qkv_proj", "o_proj"})
    EXPECT_THAT(text, HasSubstr(name));
  EXPECT_THAT(text, testing::Not(HasSubstr("self_attn")));
}

TEST_F(UnknownTest, AnIncludeThatMatchesNoMatrixIsAnErrorOfUsage) {
  EXPECT_THAT(Error(Plan({}, {.include = {"*norm*"}})),
              AllOf(HasSubstr("--include *norm*: it matches no matrix"),
                    HasSubstr("norm")));
}

// TeleChat2 has keys and values in one matrix. The gated layers are w1 and w2
// in the first Qwen, and fc1 and fc3 in the vision tower of dots.ocr.
TEST_F(UnknownTest, SiblingsOfEveryNameAreFused) {
  ASSERT_OK_AND_ASSIGN(
      const auto plan,
      Plan({Bf16("h.0.self_attention.query.weight", {128, 128}),
            Bf16("h.0.self_attention.key_value.weight", {256, 128})}));
  EXPECT_NE(Left(plan, "h.0.self_attention.query"), nullptr);
  for (const auto& [first, second, third] :
       {std::array{"w1", "w2", "c_proj"}, std::array{"fc1", "fc3", "fc2"}}) {
    const std::string mlp = "h.0.mlp.";
    ASSERT_OK_AND_ASSIGN(const auto gated,
                         Plan({Bf16(mlp + first + ".weight", {256, 128}),
                               Bf16(mlp + second + ".weight", {256, 128}),
                               Bf16(mlp + third + ".weight", {128, 256})},
                              {.include = {"*.mlp.*"}}));
    const std::string module = mlp + first;
    EXPECT_TRUE(std::any_of(gated.groups.begin(), gated.groups.end(),
                            [&](const FusedWeights& g) {
                              return g.weights.size() == 2 &&
                                     g.weights.front().module == module;
                            }))
        << module;
  }
}

TEST_F(UnknownTest, NamesTheFormatsOfTorchaoAndMistral) {
  const std::string m = "model.layers.0.x.w1";
  EXPECT_THAT(Error(Plan({Zeros(m + "._weight_qdata", "F8_E4M3", {64, 128}),
                          Zeros(m + "._weight_scale", "F32", {64, 1})})),
              AllOf(HasSubstr(m + ": "), HasSubstr("torchao")));
  EXPECT_THAT(Error(Plan({Zeros(m + ".weight", "F8_E4M3", {64, 128}),
                          Zeros(m + ".qscale_weight", "BF16", {})})),
              HasSubstr("Mistral FP8"));
}

// MiDashengLM's class is unknown, but holds a language model.
TEST_F(UnknownTest, AKnownModelTypeWithinAnUnknownClassSuffices) {
  ModelJson config = LlamaConfig();
  config["architectures"] = {"MiDashengLMModel"};
  config["text_config"] = {{"architectures", {"Odd"}},
                           {"model_type", "qwen2_5_omni_text"}};
  EXPECT_THAT(Plan({}, {}, config), IsOk());
}

// Kimi-Audio's adaptor has more layers than the language model.
TEST_F(UnknownTest, AnAdaptorForSoundIsNoMtpHead) {
  const std::string adaptor = "model.vq_adaptor.layers.3";
  ASSERT_OK_AND_ASSIGN(const auto plan,
                       Plan({Bf16(adaptor + ".weight", {64, 128})}));
  ASSERT_NE(Left(plan, adaptor), nullptr);
  EXPECT_EQ(Left(plan, adaptor)->role, Role::kVision);
  EXPECT_THAT(ConfigFiles(model_, plan).back().text, HasSubstr("audio_tower"));
}

TEST_F(UnknownTest, OffersIncludeForHeadsButNotForEmbeddings) {
  ASSERT_OK_AND_ASSIGN(const auto plan, Plan({}));
  EXPECT_THAT(Left(plan, "lm_head")->reason, HasSubstr("--include"));
  EXPECT_THAT(Left(plan, "model.embed_tokens")->reason,
              testing::Not(HasSubstr("--include")));
}

}  // namespace
}  // namespace quantd::checkpoint
