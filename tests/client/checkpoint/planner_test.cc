// Tests of conversion plans, which need only the headers of a model's files.
#include <map>
#include <set>

#include "client/checkpoint/plan.h"
#include "fmt/ranges.h"
#include "tests/client/checkpoint/model_fixture.h"
#include "tests/client/checkpoint/model_writer.h"

namespace quantd::checkpoint {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class PlannerTest : public ModelFixture {
 protected:
  static std::vector<std::string> Modules(const FusedWeights& group) {
    std::vector<std::string> names;
    for (const Weight& w : group.weights) names.push_back(w.module);
    return names;
  }
  static std::vector<std::vector<std::string>> Groups(
      const ConversionPlan& plan) {
    std::vector<std::vector<std::string>> groups;
    for (const FusedWeights& g : plan.groups) groups.push_back(Modules(g));
    return groups;
  }
  // Returns "<suffix> <dtype> [<shape>]; " for each output of a module, sorted.
  static std::string Outputs(const ConversionPlan& plan,
                             const std::string& module) {
    std::set<std::string> parts;
    for (const OutputShard& shard : plan.shards) {
      for (const safetensors::Tensor& t : shard.tensors) {
        if (t.name.substr(0, module.size()) != module) continue;
        parts.insert(fmt::format("{} {} [{}]; ", t.name.substr(module.size()),
                                 t.dtype, fmt::join(t.shape, ",")));
      }
    }
    return fmt::format("{}", fmt::join(parts, ""));
  }
};

TEST_F(PlannerTest, QuantizesLlamaLayersAndGroupsFusedWeights) {
  WriteLlama(At("m"));
  ASSERT_OK_AND_ASSIGN(const auto plan, Plan());
  const std::string l0 = "model.layers.0.", l1 = "model.layers.1.";
  EXPECT_THAT(Groups(plan),
              testing::UnorderedElementsAre(
                  ElementsAre(l0 + "self_attn.q_proj", l0 + "self_attn.k_proj",
                              l0 + "self_attn.v_proj"),
                  ElementsAre(l0 + "self_attn.o_proj"),
                  ElementsAre(l0 + "mlp.gate_proj", l0 + "mlp.up_proj"),
                  ElementsAre(l0 + "mlp.down_proj"),
                  // This group has weights from two shards.
                  ElementsAre(l1 + "self_attn.q_proj", l1 + "self_attn.k_proj",
                              l1 + "self_attn.v_proj"),
                  ElementsAre(l1 + "self_attn.o_proj"),
                  ElementsAre(l1 + "mlp.gate_proj", l1 + "mlp.up_proj"),
                  ElementsAre(l1 + "mlp.down_proj")));
  EXPECT_EQ(plan.copies.size(), 7u);
  ASSERT_EQ(plan.left_out.size(), 2u);
  EXPECT_EQ(plan.left_out[0].role, Role::kEmbedding);
  EXPECT_EQ(plan.left_out[1].module, "lm_head");
  EXPECT_THAT(plan.notes, IsEmpty());
  EXPECT_EQ(plan.shards[1].metadata.at("format"), "pt");
}
// Engines use one global scale, in one dtype, for all weights of a fused
// module.
TEST_F(PlannerTest, ConvertsFusedMembersToOneDtype) {
  auto shards = LlamaShards();
  for (WrittenTensor& t : shards.front()) {
    if (t.name == "model.layers.0.mlp.up_proj.weight") t.dtype = "F16";
  }
  WriteModel(At("m"), LlamaConfig(), shards);
  ASSERT_OK_AND_ASSIGN(const auto plan, Plan());
  size_t widened = 0;
  for (const FusedWeights& group : plan.groups) {
    for (const Weight& w : group.weights) {
      EXPECT_EQ(w.dtype(), group.weights.front().dtype()) << w.module;
      widened += w.dtype() == "F32";
    }
  }
  EXPECT_EQ(widened, 2u);
}

TEST_F(PlannerTest, WritesThePartsOfEachDialect) {
  WriteLlama(At("m"));
  struct Case {
    Dialect dialect;
    WeightFormat format;
    const char* outputs;  // for a weight of 256 x 128
  };
  using D = Dialect;
  using W = WeightFormat;
  const Case cases[] = {
      {D::kCompressedTensors, W::kNvfp4,
       ".weight_global_scale F32 [1]; .weight_packed U8 [256,64]; "
       ".weight_scale F8_E4M3 [256,8]; "},
      {D::kCompressedTensors, W::kFp8,
       ".weight F8_E4M3 [256,128]; .weight_scale BF16 [1]; "},
      {D::kCompressedTensors, W::kFp8Dynamic,
       ".weight F8_E4M3 [256,128]; .weight_scale BF16 [256,1]; "},
      {D::kCompressedTensors, W::kFp8Block,
       ".weight F8_E4M3 [256,128]; .weight_scale BF16 [2,1]; "},
      {D::kCompressedTensors, W::kMxfp8,
       ".weight F8_E4M3 [256,128]; .weight_scale U8 [256,4]; "},
      {D::kCompressedTensors, W::kMxfp4,
       ".weight_packed U8 [256,64]; .weight_scale U8 [256,4]; "},
      {D::kModelOpt, W::kNvfp4,
       ".weight U8 [256,64]; .weight_scale F8_E4M3 [256,8]; "
       ".weight_scale_2 F32 []; "},
      {D::kModelOpt, W::kMxfp8,
       ".weight F8_E4M3 [256,128]; .weight_scale U8 [256,4]; "},
      {D::kDeepSeek, W::kFp8Block,
       ".weight F8_E4M3 [256,128]; .weight_scale_inv F32 [2,1]; "},
      {D::kComfy, W::kNvfp4,
       ".comfy_quant U8 [19]; .weight U8 [256,64]; "
       ".weight_scale F8_E4M3 [256,8]; .weight_scale_2 F32 []; "},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(fmt::format("{} {}", Name(c.dialect), Name(c.format)));
    ASSERT_OK_AND_ASSIGN(const auto plan,
                         Plan({.dialect = c.dialect, .format = c.format}));
    EXPECT_EQ(Outputs(plan, "model.layers.0.mlp.gate_proj"), c.outputs);
    EXPECT_EQ(Outputs(plan, "lm_head"), ".weight BF16 [96,128]; ");
  }
}

TEST_F(PlannerTest, RefusesUnknownPairsAndListsTheKnownOnes) {
  WriteLlama(At("m"));
  const auto bad = [&](Dialect d, WeightFormat f) {
    const auto plan = Plan({.dialect = d, .format = f});
    EXPECT_THAT(plan, StatusIs(absl::StatusCode::kInvalidArgument));
    return std::string(plan.status().message());
  };
  EXPECT_THAT(bad(Dialect::kDeepSeek, WeightFormat::kNvfp4),
              AllOf(HasSubstr("fp8_block with --dialect deepseek"),
                    HasSubstr("--dialect compressed-tensors, modelopt, comfy"),
                    HasSubstr("got nvfp4")));
  EXPECT_THAT(bad(Dialect::kNone, WeightFormat::kNvfp4),
              HasSubstr("bf16 with --dialect none"));
  EXPECT_THAT(
      Plan({.profile = Profile::kModelopt047}),
      Refused(AllOf(HasSubstr("--profile: expected a profile that writes nvfp4 "
                              "as compressed-tensors stores it"),
                    HasSubstr("got modelopt@0.47"))));
  EXPECT_THAT(Plan({.profile = Profile::kTe}), IsOk());
}

TEST_F(PlannerTest, PatternsSelectWeights) {
  WriteLlama(At("m"));
  const auto only = Plan({.only = {"*.down_proj"}});
  ASSERT_THAT(only, IsOk());
  EXPECT_EQ(only->weights(), 2u);
  ASSERT_OK_AND_ASSIGN(const auto ignore, Plan({.ignore = {"re:.*self_attn"}}));
  EXPECT_EQ(ignore.weights(), 6u);
  ASSERT_OK_AND_ASSIGN(const auto include, Plan({.include = {"lm_head"}}));
  EXPECT_EQ(include.weights(), 15u);
  const auto rules =
      Plan({.rules = {"re:.*layers.0.*down_proj=bf16", "re:.*down_proj=fp8"}});
  ASSERT_THAT(rules, IsOk());
  EXPECT_EQ(rules->formats().at(WeightFormat::kFp8), 1u);
  EXPECT_EQ(rules->formats().at(WeightFormat::kNvfp4), 12u);
  for (const char* rule : {"x", "x=fp5", "=fp8", "re:(=fp8", "x="}) {
    EXPECT_THAT(Plan({.rules = {rule}}),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << rule;
  }
  EXPECT_THAT(Plan({.only = {"lm_head"}}),
              Refused(AllOf(HasSubstr("no weight is left to quantize"),
                            HasSubstr("output heads, like lm_head"))));
}

TEST_F(PlannerTest, NotesAPartlyQuantizedFusedModule) {
  WriteLlama(At("m"));
  ASSERT_OK_AND_ASSIGN(const auto torn,
                       Plan({.ignore = {"*.0.self_attn.k_proj"}}));
  EXPECT_THAT(torn.notes, ElementsAre(HasSubstr("layers.0.self_attn.k_proj")));
  ASSERT_OK_AND_ASSIGN(const auto mixed,
                       Plan({.rules = {"*.0.mlp.up_proj=fp8"}}));
  EXPECT_THAT(mixed.notes, ElementsAre(HasSubstr("model.layers.0.mlp")));
}

TEST_F(PlannerTest, HandlesExpertsRoutersTowersAndMtpHeads) {
  ModelJson config = LlamaConfig();
  config["model_type"] = "deepseek_v3";
  const std::string l = "model.layers.0.";
  WriteModel(At("m"), config,
             {{Bf16(l + "mlp.gate.weight", {8, 128}),
               Bf16(l + "mlp.experts.0.gate_proj.weight", {32, 128}),
               Bf16(l + "mlp.experts.0.up_proj.weight", {32, 128}),
               Bf16(l + "mlp.experts.0.down_proj.weight", {128, 32}),
               Bf16(l + "mlp.shared_expert_gate.weight", {1, 128}),
               Bf16(l + "block_sparse_moe.experts.1.w1.weight", {32, 128}),
               Bf16(l + "block_sparse_moe.experts.1.w3.weight", {32, 128}),
               Bf16("vision_tower.layers.0.q_proj.weight", {128, 128}),
               Bf16("model.layers.2.mlp.down_proj.weight", {128, 32}),
               Bf16("mtp.fc.weight", {128, 128})}});
  ASSERT_OK_AND_ASSIGN(const auto plan, Plan());
  EXPECT_THAT(Groups(plan),
              ElementsAre(ElementsAre(l + "mlp.experts.0.gate_proj",
                                      l + "mlp.experts.0.up_proj"),
                          ElementsAre(l + "mlp.experts.0.down_proj"),
                          ElementsAre(l + "block_sparse_moe.experts.1.w1",
                                      l + "block_sparse_moe.experts.1.w3")));
  std::map<std::string, Role> roles;
  for (const LeftOut& left : plan.left_out) roles[left.module] = left.role;
  EXPECT_EQ(roles.at(l + "mlp.gate"), Role::kRouter);
  EXPECT_EQ(roles.at(l + "mlp.shared_expert_gate"), Role::kRouter);
  EXPECT_EQ(roles.at("vision_tower.layers.0.q_proj"), Role::kVision);
  EXPECT_EQ(roles.at("model.layers.2.mlp.down_proj"), Role::kMultiToken);
  EXPECT_EQ(roles.at("mtp.fc"), Role::kMultiToken);
}

TEST_F(PlannerTest, GroupsUnknownArchitecturesByShapeWithANote) {
  ModelJson config = {{"architectures", {"MarvinForCausalLM"}},
                      {"model_type", "marvin"}};
  WriteModel(At("m"), config,
             {{Bf16("blocks.0.alpha.weight", {32, 64}),
               Bf16("blocks.0.beta.weight", {64, 64}),
               Bf16("blocks.0.gamma.weight", {32, 96}),
               Bf16("blocks.0.attn.o_proj.weight", {32, 64})}});
  ASSERT_OK_AND_ASSIGN(const auto plan, Plan({.include = {"*"}}));
  EXPECT_THAT(Groups(plan),
              ElementsAre(ElementsAre("blocks.0.alpha", "blocks.0.beta"),
                          ElementsAre("blocks.0.gamma"),
                          ElementsAre("blocks.0.attn.o_proj")));
  EXPECT_THAT(plan.notes,
              ElementsAre(HasSubstr("unknown architecture marvin")));
  ASSERT_OK_AND_ASSIGN(const auto fused,
                       Plan({.include = {"*"}, .fuse = {"gamma,beta"}}));
  EXPECT_THAT(Groups(fused),
              Contains(ElementsAre("blocks.0.beta", "blocks.0.gamma")));
  for (const char* bad : {"gamma", "a,,b", "a.b,c"}) {
    EXPECT_THAT(Plan({.fuse = {bad}}),
                StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

TEST_F(PlannerTest, LeavesOutShapesThatTheFormatLacks) {
  ModelJson config = LlamaConfig();
  WriteModel(At("m"), config,
             {{Bf16("model.layers.0.mlp.down_proj.weight", {8, 24}),
               Bf16("model.layers.0.self_attn.o_proj.weight", {8, 32}),
               Bf16("model.layers.1.self_attn.o_proj.weight", {0, 32})}});
  ASSERT_OK_AND_ASSIGN(const auto plan, Plan());
  ASSERT_EQ(plan.left_out.size(), 2u);
  EXPECT_THAT(plan.left_out[0].reason, HasSubstr("multiple of 16"));
  EXPECT_THAT(plan.left_out[1].reason, HasSubstr("empty"));
}

TEST_F(PlannerTest, SplitsStackedExperts) {
  ModelJson config = LlamaConfig();
  config["model_type"] = "qwen3_5_moe";
  const std::string experts = "model.layers.0.mlp.experts";
  // Stacks of N x K, and of K x N.
  for (const bool swapped : {false, true}) {
    WriteModel(At("m"), config,
               {{Bf16(experts + ".gate_up_proj",
                      swapped ? std::vector<int64_t>{3, 128, 64}
                              : std::vector<int64_t>{3, 64, 128}),
                 Bf16(experts + ".down_proj",
                      swapped ? std::vector<int64_t>{3, 32, 128}
                              : std::vector<int64_t>{3, 128, 32})}});
    ASSERT_OK_AND_ASSIGN(const auto plan, Plan());
    EXPECT_EQ(plan.weights(), 9u);
    EXPECT_THAT(Groups(plan), Contains(ElementsAre(experts + ".2.gate_proj",
                                                   experts + ".2.up_proj")));
    EXPECT_EQ(Outputs(plan, experts + ".1.up_proj"),
              ".weight_global_scale F32 [1]; .weight_packed U8 [32,64]; "
              ".weight_scale F8_E4M3 [32,8]; ");
    for (const FusedWeights& group : plan.groups) {
      for (const Weight& w : group.weights) {
        EXPECT_EQ(w.transposed, swapped);
        if (w.module != experts + ".1.up_proj") continue;
        EXPECT_EQ(w.offset,
                  swapped ? 64 * 128 * 2 + 32 * 2 : (64 + 32) * 128 * 2);
        EXPECT_EQ(w.pitch, swapped ? 64 * 2 : 128 * 2);
      }
    }
  }
  config["model_type"] = "gpt_oss";
  WriteFile(At("m/config.json"), config.dump());
  ASSERT_OK_AND_ASSIGN(
      const auto stacked,
      Plan({.dialect = Dialect::kGptOss, .format = WeightFormat::kMxfp4}));
  EXPECT_EQ(Outputs(stacked, experts + ".gate_up_proj"),
            "_blocks U8 [3,64,4,16]; _scales U8 [3,64,4]; ");
}

TEST_F(PlannerTest, RefusesQuantizedAndInconsistentModels) {
  const std::string m = "model.layers.0.mlp.down_proj";
  const std::vector<std::byte> zeros(1 << 20);
  const auto part = [&](const std::string& suffix, const std::string& dtype,
                        std::vector<int64_t> shape) {
    size_t bytes = static_cast<size_t>(safetensors::BitsOf(dtype)) / 8;
    for (const int64_t d : shape) bytes *= static_cast<size_t>(d);
    return WrittenTensor{
        m + suffix, dtype, shape, {zeros.begin(), zeros.begin() + bytes}};
  };
  const WrittenTensor packed = part(".weight_packed", "U8", {32, 16});
  const WrittenTensor scale = part(".weight_scale", "F8_E4M3", {32, 2});
  const WrittenTensor global = part(".weight_global_scale", "F32", {1});
  WriteModel(At("m"), LlamaConfig(), {{packed, scale, global}});
  auto plan = Plan();
  EXPECT_THAT(
      plan,
      Refused(HasSubstr("already quantized (" + m +
                        " is nvfp4 by compressed-tensors), and quantizing "
                        "4-bit weights again would lose more accuracy")));
  WriteModel(At("m"), LlamaConfig(),
             {{packed, scale, global, Bf16(m + ".weight", {32, 32})}});
  EXPECT_THAT(Plan(), Refused(HasSubstr("is stored twice, in two dialects")));
  // FP8 weights can be read, but not beside weights in unknown formats.
  const std::string up = "model.layers.0.mlp.up_proj.weight";
  const std::vector<WrittenTensor> fp8 = {
      part(".weight", "F8_E4M3", {32, 32}),
      part(".weight_scale_inv", "F32", {1, 1})};
  WriteModel(At("m"), LlamaConfig(), {fp8});
  plan = Plan();
  ASSERT_THAT(plan, IsOk());
  EXPECT_EQ(plan->weights(), 1u);
  WriteModel(At("m"), LlamaConfig(),
             {{fp8[0],
               fp8[1],
               {up, "I8", {32, 32}, {zeros.begin(), zeros.begin() + 1024}}}});
  EXPECT_THAT(
      Plan(),
      Refused(HasSubstr("mlp.up_proj: its tensors fit no known dialect")));
  ModelJson config = LlamaConfig();
  config["quantization_config"] = {{"quant_method", "awq"}};
  WriteModel(At("m"), config, {{Bf16(m + ".weight", {32, 32})}});
  EXPECT_THAT(Plan(), Refused(HasSubstr("has quantization_config")));
}

TEST_F(PlannerTest, NamesOrRefusesWeightsWithoutAnInputScale) {
  WriteLlama(At("m"));
  const std::string first = "model.layers.0.mlp.down_proj";
  const std::string second = "model.layers.1.mlp.down_proj";
  Selection s = {.only = {"*.down_proj"}, .input_amax = {{"down_proj", 3.0f}}};
  EXPECT_THAT(
      Plan(s),
      Refused(HasSubstr("none of the 2 weights, for example not " + first)));
  s.input_amax = {{first, 3.0f}};
  ASSERT_OK_AND_ASSIGN(const auto some, Plan(s));
  EXPECT_NE(Output(some, first + ".input_global_scale"), nullptr);
  EXPECT_EQ(Output(some, second + ".input_global_scale"), nullptr);
  EXPECT_THAT(some.notes,
              testing::Contains(HasSubstr("the module: " + second)));
  s.dialect = Dialect::kModelOpt;
  s.format = WeightFormat::kFp8;
  EXPECT_THAT(Plan(s),
              Refused(HasSubstr(second + ": with --dialect modelopt")));
}

}  // namespace
}  // namespace quantd::checkpoint
