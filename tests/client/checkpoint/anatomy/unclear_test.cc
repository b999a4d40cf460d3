// Tests that unreadable weights are refused or reported, never copied silently.
#include "tests/client/checkpoint/anatomy/unclear_fixture.h"

namespace quantd::checkpoint {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr char kUp[] = "model.layers.0.mlp.experts.0.up_proj";

TEST_F(UnclearTest, RefusesWeightsInUnknownFormats) {
  const std::string up = kUp;
  struct Case {
    std::vector<WrittenTensor> tensors;
    const char* says;
  };
  const std::string stack = "model.layers.0.mlp.experts.down_proj";
  const Case cases[] = {
      {{Zeros(up + ".weight", "U8", {64, 64}),
        Zeros(up + ".weight_scale", "U8", {64, 4})},
       "weight U8 [64, 64], weight_scale U8 [64, 4] (Quark MXFP4)"},
      {{Zeros(up + ".weight_packed", "I32", {64, 16}),
        Bf16(up + ".weight_scale", {64, 4})},
       "weight_packed I32 [64, 16], weight_scale BF16 [64, 4] "
       "(compressed-tensors integers"},
      {{Zeros(up + ".qweight", "I32", {16, 64}),
        Zeros(up + ".qzeros", "I32", {4, 8}), Bf16(up + ".scales", {4, 64}),
        Zeros(up + ".g_idx", "I32", {128})},
       "(GPTQ)"},
      {{Zeros(up + ".qweight", "I32", {128, 8}),
        Zeros(up + ".qzeros", "I32", {4, 8}), Bf16(up + ".scales", {4, 64})},
       "(AWQ or GPTQ)"},
      {{Zeros(up + ".weight", "U8", {4096, 1}),
        Zeros(up + ".weight.absmax", "U8", {128}),
        Zeros(up + ".weight.quant_map", "F32", {16})},
       "(bitsandbytes 4-bit)"},
      {{Zeros(up + ".weight", "I8", {64, 128}),
        Zeros(up + ".SCB", "F32", {64})},
       "(bitsandbytes, LLM.int8())"},
      {{Zeros(up + ".weight", "U32", {64, 16}), Bf16(up + ".scales", {64, 2}),
        Bf16(up + ".biases", {64, 2})},
       "(MLX)"},
      {{Zeros(up + ".weight", "I8", {64, 128}),
        Zeros(up + ".weight_scale", "F32", {64})},
       "(INT8 by Quark"},
      {{Zeros(up + ".weight", "F8_E4M3", {64, 128})},
       "(FP8 without its scales)"},
      {{Zeros(up + ".weight", "F64", {64, 128})}, "in a 64-bit type"},
      {{Zeros(up + ".dense_weights", "I32", {99}),
        Zeros(up + ".col_vals", "I32", {9}),
        Zeros(up + ".row_offsets", "I32", {65})},
       "dense_weights I32 [99], row_offsets I32 [65] (SpQR)"},
      {{Bf16(up + ".compressed", {64, 64}), Zeros(up + ".shape", "I64", {2})},
       "(compressed-tensors 2:4 sparse"},
      {{Zeros(stack, "U8", {2, 32, 128}),
        Zeros(stack + "_weight_scale", "F8_E4M3", {2, 4, 128}),
        Zeros(stack + "_weight_scale_2", "F32", {})},
       "(ModelOpt fused experts)"},
      {{Zeros(stack, "F8_E4M3", {2, 64, 128}),
        Zeros(stack + "_scale", "F32", {2, 1, 128})},
       "scale F32 [2, 1, 128] (FP8)"},
      // Scales without a weight, and scales beside a plain weight.
      {{Zeros(up + ".weight_scale_inv", "F32", {1, 1})},
       "the scales exist, but their weight does not"},
      {{Bf16(up + ".weight", {64, 128}),
        Zeros(up + ".weight_scale", "F32", {})},
       "weight BF16 [64, 128], weight_scale F32 []"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.says);
    for (const bool nested : {false, true}) {
      ModelJson config = LlamaConfig();
      if (nested) config["text_config"]["quantization_config"] = {{"a", "b"}};
      const std::string error = Error(Plan(c.tensors, {}, config));
      EXPECT_THAT(error, AllOf(HasSubstr(c.says), HasSubstr("original model"),
                               HasSubstr("--ignore model.layers.0.mlp.experts"),
                               Not(HasSubstr("remove"))));
    }
    EXPECT_THAT(Error(PlanAgain({.dialect = Dialect::kNone,
                                 .format = WeightFormat::kBf16})),
                AllOf(HasSubstr(c.says), Not(HasSubstr("--ignore"))));
    // With --ignore they are copied and listed.
    ASSERT_OK_AND_ASSIGN(
        const auto carried,
        Plan(c.tensors, {.ignore = {"model.layers.0.mlp.experts*"}}));
    const LeftOut* left =
        Left(carried, c.tensors.front().name.starts_with(stack) ? stack : up);
    ASSERT_NE(left, nullptr);
    EXPECT_EQ(left->kind, "weights in unknown formats");
    EXPECT_THAT(carried.notes, Contains(HasSubstr("unknown formats")));
    EXPECT_GT(left->bytes, 0u);
    EXPECT_EQ(carried.weights(), 14u);
    EXPECT_THAT(ConfigFiles(model_, carried).back().text,
                HasSubstr(R"("re:.*\\.experts\\..*")"));
  }
}

TEST_F(UnclearTest, CopiesTensorsThatAreNotWeights) {
  ASSERT_OK_AND_ASSIGN(
      const auto plan,
      Plan({Zeros("model.layers.0.attn.bias", "U8", {1, 1, 4, 4}),
            Zeros("model.position_ids", "I64", {1, 64}),
            Zeros("model.layers.0.self_attn.k_scale", "F32", {}),
            Zeros("model.logit_scale", "F32", {})}));
  EXPECT_EQ(plan.left_out.size(), 2u);
}

TEST_F(UnclearTest, NamesALeftOverConfigurationUnlessItIsEmpty) {
  ModelJson config = LlamaConfig();
  for (const ModelJson& none : {ModelJson(), ModelJson::object()}) {
    config["quantization_config"] = none;
    EXPECT_THAT(Plan({}, {}, config), IsOk());
  }
  config["llm_config"]["quantization_config"] = {{"quant_method", "awq"}};
  EXPECT_THAT(Error(Plan({}, {}, config)),
              AllOf(HasSubstr("has llm_config.quantization_config"),
                    HasSubstr("remove that description")));
  EXPECT_THAT(Plan({}), IsOk());
  WriteFile(dir_ / "m/quantize_config.json", "{}");
  EXPECT_THAT(Error(PlanAgain({})),
              HasSubstr("the model has quantize_config.json"));
  EXPECT_THAT(model_.others(), testing::ElementsAre("tokenizer.json"));
}

TEST_F(UnclearTest, DropsInputScalesAndReportsCacheScales) {
  const std::string m = "model.layers.2.self_attn.k_proj";
  ModelJson config = LlamaConfig();
  config["quantization_config"] = {{"quant_method", "fbgemm_fp8"}};
  for (const Dialect dialect : {Dialect::kCompressedTensors, Dialect::kNone}) {
    Selection to = {.dialect = dialect};
    if (dialect == Dialect::kNone) to.format = WeightFormat::kBf16;
    ASSERT_OK_AND_ASSIGN(const auto plan,
                         Plan({Zeros(m + ".weight", "F8_E4M3", {128, 128}),
                               Zeros(m + ".weight_scale", "F32", {128, 1}),
                               Zeros(m + ".input_scale", "F32", {1}),
                               Zeros(m + ".input_scale_ub", "F32", {1}),
                               Zeros(m + ".output_scale", "F32", {1})},
                              to, config));
    std::vector<std::string> kept;
    for (const ModelTensor* t : plan.copies) {
      if (t->name().starts_with(m)) kept.push_back(t->name());
    }
    // Plain models have no scales of caches.
    if (dialect == Dialect::kNone) {
      EXPECT_THAT(kept, testing::IsEmpty());
      continue;
    }
    EXPECT_THAT(kept, testing::ElementsAre(m + ".output_scale"));
    EXPECT_THAT(plan.notes,
                Contains(HasSubstr("1 scales of the KV cache are copied")));
  }
}

TEST_F(UnclearTest, DecodingRemovesEveryPartOfAQuantization) {
  const std::string m = "model.layers.0.mlp.extra_proj";
  const Selection decode = {.dialect = Dialect::kNone,
                            .format = WeightFormat::kBf16};
  const std::vector<WrittenTensor> parts = {
      Zeros(m + ".weight", "F8_E4M3", {128, 128}),
      Zeros(m + ".weight_scale", "BF16", {1}),
      Zeros(m + ".weight_shape", "I64", {2}),
      Zeros(m + ".input_scale", "F32", {})};
  ModelJson config = LlamaConfig();
  config["text_config"] = {{"quantization_config", {{"quant_method", "x"}}},
                           {"vocab_size", 96}};
  ASSERT_OK_AND_ASSIGN(const auto plan, Plan(parts, decode, config));
  for (const ModelTensor* t : plan.copies) {
    EXPECT_THAT(t->name(), Not(HasSubstr("extra_proj")));
  }
  EXPECT_THAT(ConfigFiles(model_, plan).back().text,
              AllOf(Not(HasSubstr("quantization")), HasSubstr("vocab_size")));
  for (const char* part : {".weight_zero_point", ".smooth_scale"}) {
    auto more = parts;
    more.push_back(Zeros(m + part, "I8", {1}));
    EXPECT_THAT(Error(Plan(more, decode, config)), HasSubstr("may change"));
  }
}

// ceil(192 / 96) equals ceil(192 / 128), so only the configuration shows the
// block size.
TEST_F(UnclearTest, RefusesBlocksOfAnotherSize) {
  const std::string m = "model.layers.0.mlp.extra_proj";
  const std::vector<WrittenTensor> parts = {
      Zeros(m + ".weight", "F8_E4M3", {192, 128}),
      Zeros(m + ".weight_scale_inv", "F32", {2, 1})};
  for (const Selection& s : {Selection{}, Selection{.dialect = Dialect::kNone,
                                          .format = WeightFormat::kBf16}}) {
    const auto plan = [&](const ModelJson& said) {
      ModelJson config = LlamaConfig();
      config["quantization_config"] = said;
      return Plan(parts, s, config);
    };
    const ModelJson sizes = {96, 128};
    EXPECT_THAT(Error(plan({{"weight_block_size", sizes}})),
                HasSubstr("weight_block_size of [96,128]"));
    EXPECT_THAT(
        Error(plan({{"config_groups",
                     {{"g", {{"weights", {{"block_structure", sizes}}}}}}}})),
        HasSubstr("block_structure of [96,128]"));
    EXPECT_THAT(plan({{"weight_block_size", {128, 128}}}), IsOk());
  }
}

// Engines expect a weight where the file has only factors.
TEST_F(UnclearTest, RefusesWeightsThatAreStoredAsFactors) {
  const std::string m = "model.layers.0.mlp.extra_proj";
  struct Case {
    std::vector<WrittenTensor> tensors;
    const char* says;
  };
  const Case cases[] = {
      {{Bf16(m + ".weight_g", {64, 1}), Bf16(m + ".weight_v", {64, 128})},
       "remove_weight_norm"},
      {{Bf16(m + ".parametrizations.weight.original0", {64, 1}),
        Bf16(m + ".parametrizations.weight.original1", {64, 128})},
       "remove_parametrizations"},
      {{Bf16(m + ".weight_orig", {64, 128}),
        Zeros(m + ".weight_mask", "BOOL", {64, 128})},
       "prune.remove"},
      {{Bf16(m + ".weight_orig", {64, 128}), Bf16(m + ".weight_u", {64})},
       "remove_spectral_norm"},
      {{Bf16(m + ".weight", {64, 128}), Bf16(m + ".bias_orig", {64}),
        Bf16(m + ".bias_mask", {64})},
       "prune.remove"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.says);
    EXPECT_THAT(Error(Plan(c.tensors)), AllOf(HasSubstr(m), HasSubstr(c.says),
                                              HasSubstr("--ignore " + m)));
    ASSERT_OK_AND_ASSIGN(const auto carried, PlanAgain({.ignore = {m}}));
    ASSERT_NE(Left(carried, m), nullptr);
    EXPECT_THAT(ConfigFiles(model_, carried).back().text,
                HasSubstr("extra_proj"));
  }
  // Convolutions and heads stay unquantized anyway, so their factors are
  // copied.
  const std::string head = "dino.head.last_layer";
  const std::string conv = "encoder.pos_conv_embed.conv";
  ASSERT_OK_AND_ASSIGN(const auto kept,
                       Plan({Bf16(head + ".weight_g", {64, 1}),
                             Bf16(head + ".weight_v", {64, 128}),
                             Bf16(conv + ".weight_g", {1, 1, 4}),
                             Bf16(conv + ".weight_v", {64, 16, 4})}));
  ASSERT_NE(Left(kept, head), nullptr);
  ASSERT_NE(Left(kept, conv), nullptr);
  EXPECT_EQ(Left(kept, conv)->kind, "weights that are stored as factors");
  EXPECT_THAT(ConfigFiles(model_, kept).back().text,
              AllOf(HasSubstr("dino"), HasSubstr("encoder")));
}

TEST_F(UnclearTest, UnfusedWeightsMayHaveDifferentFormats) {
  ModelJson config = LlamaConfig();
  config["model_type"] = "odd";
  const std::string l = "model.layers.0.mixer.";
  ASSERT_OK_AND_ASSIGN(const auto plan,
                       Plan({Bf16(l + "gate.weight", {16, 128}),
                             Bf16(l + "odd_proj.weight", {64, 128}),
                             Bf16("model.odd_proj.weight", {64, 128})},
                            {}, config));
  EXPECT_THAT(plan.notes, Not(Contains(HasSubstr("another format"))));
}

// Engines treat all experts of a layer as one weight.
TEST_F(UnclearTest, ReportsExpertsOfTwoFormatsInALayer) {
  const std::string e = "model.layers.0.mlp.experts.";
  const std::vector<WrittenTensor> experts = {
      Bf16(e + "0.down_proj.weight", {128, 64}),
      Bf16(e + "1.down_proj.weight", {128, 64})};
  EXPECT_THAT(Plan(experts, {.ignore = {"*.experts.1.*"}})->notes,
              Contains(AllOf(HasSubstr("another format"),
                             HasSubstr("experts.1.down_proj"))));
  EXPECT_THAT(PlanAgain({.rules = {"*.experts.1.*=fp8_dynamic"}})->notes,
              Contains(HasSubstr("another format")));
  EXPECT_THAT(PlanAgain({.ignore = {"*.experts.*"}})->notes,
              Not(Contains(HasSubstr("another format"))));
  EXPECT_THAT(Plan({Bf16(e + "gate_up_proj", {2, 128, 512}),
                    Bf16(e + "down_proj", {2, 256, 128})},
                   {.ignore = {"*.experts.*.down_proj"}})
                  ->notes,
              Contains(HasSubstr("another format")));
}

TEST_F(UnclearTest, ReportsNamesOfATrainingWrapper) {
  const std::string up = "mlp.up_proj.weight";
  for (const std::string& name :
       {"module.model.layers.0." + up, "_forward_module.model.layers.0." + up,
        "model.layers.0._fsdp_wrapped_module." + up,
        "model.layers.0._orig_mod." + up}) {
    WriteModel(dir_ / "m", LlamaConfig(), {{Bf16(name, {64, 128})}});
    EXPECT_THAT(PlanAgain({})->notes,
                Contains(AllOf(HasSubstr("mod"),
                               HasSubstr(".\", which a training wrapper added"),
                               HasSubstr("without the wrapper"))));
  }
}

// torch.nn.MultiheadAttention reads out_proj's weight directly instead of
// calling the module, so no engine can replace that module. norm_proj is not a
// known name of a linear layer.
TEST_F(UnclearTest, ListsMatricesThatNoEngineQuantizes) {
  const std::string a = "model.layers.0.attn.";
  ASSERT_OK_AND_ASSIGN(
      const auto plan,
      Plan({Bf16(a + "in_proj_weight", {384, 128}),
            Bf16(a + "out_proj.weight", {128, 128}),
            Bf16("model.layers.0.norm_proj.weight", {128, 128})}));
  EXPECT_EQ(plan.weights(), 14u);
  EXPECT_NE(Left(plan, a + "out_proj"), nullptr);
  EXPECT_THAT(ConfigFiles(model_, plan).back().text,
              AllOf(HasSubstr("out_proj"), HasSubstr("norm_proj")));
}

TEST_F(UnclearTest, RefusesAShardThatTheIndexOmits) {
  WriteLlama(dir_ / "m");
  const std::string name = "model-00002-of-00002.safetensors";
  const std::string index = dir_ / "m/model.safetensors.index.json";
  ModelJson json = ModelJson::parse(ReadFile(index));
  const ModelJson all = json["weight_map"];
  json["weight_map"].clear();
  for (const auto& [tensor, shard] : all.items()) {
    if (shard != name) json["weight_map"][tensor] = shard;
  }
  WriteFile(index, json.dump());
  EXPECT_THAT(Error(PlanAgain({})),
              AllOf(HasSubstr("layers.1.self_attn.v_proj.weight in " + name),
                    HasSubstr("download the index of these files again")));
  // Layers beyond the model's last one are left out and named.
  ModelJson config = LlamaConfig();
  config["num_hidden_layers"] = 1;
  WriteFile(dir_ / "m/config.json", config.dump());
  ASSERT_OK_AND_ASSIGN(const auto beyond, PlanAgain({}));
  EXPECT_THAT(
      beyond.notes,
      Contains(HasSubstr(name + " has tensors that the model does not have")));
}

TEST_F(UnclearTest, RefusesAdapters) {
  const std::string q = "model.layers.0.self_attn.q_proj.";
  for (const std::string& name :
       {"base_model.model." + q + "lora_A.weight", q + "lora_B.default.weight",
        q + "lora_magnitude_vector", q + "ia3_l",
        std::string("lora_unet_blocks_0.lora_up.weight"),
        std::string("blocks.0.to_q_lora.down.weight"), q + "lora_a",
        q + "lora_b.weight", q + "vera_A", q + "boft_R.weight",
        q + "base_layer.modules_to_save.default.weight"}) {
    SCOPED_TRACE(name);
    EXPECT_THAT(Error(Plan({Bf16(name, {16, 128})})),
                AllOf(HasSubstr(name), HasSubstr("merge")));
  }
  // Phi-4-multimodal stores adapters beside complete weights.
  EXPECT_THAT(
      Error(Plan({Bf16(q + "base_layer.weight", {128, 128}),
                  Bf16(q + "lora_A.vision.weight", {16, 128})})),
      AllOf(HasSubstr("--ignore '*lora_*'"), Not(HasSubstr("AutoPeft"))));
  EXPECT_THAT(
      Plan({Bf16(q + "lora_A.weight", {16, 128})}, {.ignore = {"*lora_A*"}}),
      IsOk());
  // Image adapters beside the attention cannot be merged.
  for (const std::string name :
       {"ip_adapter.1.to_k_ip.weight", "attn2.processor.to_v_ip.0.weight",
        "ip_adapter_proj_model.proj.weight",
        "double_blocks.0.processor.ip_adapter_double_stream_k_proj.weight",
        "lllite_unet_input_blocks_4.down.0.weight"}) {
    SCOPED_TRACE(name);
    EXPECT_THAT(Error(Plan({Bf16("image_proj.proj.weight", {128, 128}),
                            Bf16(name, {128, 128})})),
                AllOf(HasSubstr(name), HasSubstr("load_ip_adapter"),
                      Not(HasSubstr("merge"))));
  }
  // RWKV's layers themselves have names with "lora".
  EXPECT_THAT(
      Plan({Bf16("model.layers.0.attn.w_lora.lora.0.weight", {16, 128})}),
      IsOk());
  std::filesystem::remove_all(dir_ / "m");
  std::filesystem::create_directories(dir_ / "m");
  WriteSafetensors(dir_ / "m/adapter_model.safetensors",
                   {Bf16("prompt_embeddings", {16, 128})});
  EXPECT_THAT(Error(PlanAgain({})), HasSubstr("merge"));
}

TEST_F(UnclearTest, RefusesIncludedEmbeddingsAndTiedHeads) {
  EXPECT_THAT(Error(Plan({}, {.include = {"model.embed_tokens"}})),
              HasSubstr("is an embedding"));
  EXPECT_THAT(PlanAgain({.ignore = {"*embed*"}, .include = {"*"}}), IsOk());
  ModelJson config = LlamaConfig();
  config["tie_word_embeddings"] = true;
  EXPECT_THAT(Error(Plan({}, {.include = {"lm_head"}}, config)),
              HasSubstr("untie"));
  ASSERT_OK_AND_ASSIGN(const auto router,
                       Plan({Bf16("model.layers.0.mlp.gate.weight", {16, 128})},
                            {.include = {"*.gate"}}));
  EXPECT_THAT(router.notes, Contains(HasSubstr("routers are quantized")));
}

}  // namespace
}  // namespace quantd::checkpoint
