// Tests the scales of FP8 KV caches in a planned conversion, from headers
// alone.
#include "client/checkpoint/convert/config_writer.h"
#include "client/checkpoint/plan.h"
#include "tests/client/checkpoint/model_fixture.h"
#include "tests/client/checkpoint/quantized_writer.h"

namespace quantd::checkpoint {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

using CacheScalesTest = ModelFixture;

TEST_F(CacheScalesTest, CacheScalesComeFromTheCalibration) {
  const std::string first = "model.layers.0.self_attn.";
  const std::string second = "model.layers.1.self_attn.";
  const auto named = [](std::string attention) {
    attention.pop_back();
    return attention;
  };
  auto shards = LlamaShards();
  // An old cache scale is replaced; a tensor whose name only ends like one
  // stays.
  shards[0].push_back({first + "k_scale", "F32", {}, FloatBytes({7})});
  shards[0].push_back({first + "block_scale", "F32", {}, FloatBytes({7})});
  WriteModel(At("m"), LlamaConfig(), shards);
  Selection s = {.cache_amax = {{named(first), {448.0f, 3.0f}},
                                {named(second), {56.0f, 1.0f}}}};
  for (const Dialect dialect :
       {Dialect::kCompressedTensors, Dialect::kModelOpt}) {
    s.dialect = dialect;
    const bool own = dialect == Dialect::kModelOpt;
    const std::string k = own ? "k_proj.k_scale" : "k_scale";
    const std::string v = own ? "v_proj.v_scale" : "v_scale";
    ASSERT_OK_AND_ASSIGN(const auto plan, Plan(s));
    std::map<std::string, float> scales;
    for (const CacheScale& c : plan.cache_scales) scales[c.name] = c.value;
    EXPECT_EQ(scales, (std::map<std::string, float>{{first + k, 1.0f},
                                                    {first + v, 3.0f / 448},
                                                    {second + k, 0.125f},
                                                    {second + v, 1.0f / 448}}));
    for (const auto& [name, value] : scales) {
      const auto* out = Output(plan, name);
      ASSERT_NE(out, nullptr) << name;
      EXPECT_EQ(out->dtype, "F32");
      EXPECT_EQ(out->size, 4u);
    }
    EXPECT_EQ(Output(plan, first + "k_scale") != nullptr, !own);
    const auto files = ConfigFiles(model_, plan);
    const auto config =
        ModelJson::parse(files.back().text)["quantization_config"];
    EXPECT_EQ(config["kv_cache_scheme"]["num_bits"], 8);
    EXPECT_EQ(config["kv_cache_scheme"]["type"], "float");
    EXPECT_EQ(config["kv_cache_scheme"]["dynamic"], false);
    if (own) {
      EXPECT_THAT(files.front().text + files[1].text,
                  HasSubstr(R"("kv_cache_quant_algo": "FP8")"));
    } else {
      EXPECT_EQ(config["kv_cache_scheme"]["strategy"], "tensor");
      EXPECT_EQ(config["kv_cache_scheme"]["symmetric"], true);
    }
    EXPECT_NE(Output(plan, first + "block_scale"), nullptr);
    EXPECT_THAT(plan.notes, Not(Contains(HasSubstr("scales of the KV cache"))));
  }
}

TEST_F(CacheScalesTest, AShardWithoutAttentionsDeclaresScalesOfCaches) {
  const auto shards = LlamaShards();
  std::vector<WrittenTensor> parts[2];
  for (const auto& shard : shards) {
    for (const WrittenTensor& t : shard) {
      parts[t.name.find("self_attn") != std::string::npos].push_back(t);
    }
  }
  WriteModel(At("m"), LlamaConfig(), {parts[0], parts[1]});
  ASSERT_OK_AND_ASSIGN(
      auto model, Model::Open(At("m"), {"model-00001-of-00002.safetensors"}));
  ASSERT_OK_AND_ASSIGN(
      const auto plan,
      MakeConversionPlan(
          model, {.cache_amax = {{"model.layers.0.self_attn", {2.0f, 1.0f}}}}));
  EXPECT_THAT(plan.cache_scales, testing::IsEmpty());
  EXPECT_THAT(ConfigFiles(model, plan).back().text,
              HasSubstr("\"strategy\": \"tensor\""));
}

TEST_F(CacheScalesTest, CachesWithoutAMaximumAreNamedOrRefused) {
  WriteLlama(At("m"));
  Selection s = {.cache_amax = {{"model.layers.1.self_attn", {2.0f, 1.0f}}}};
  ASSERT_OK_AND_ASSIGN(const auto some, Plan(s));
  EXPECT_EQ(some.cache_scales.size(), 2u);
  EXPECT_THAT(some.notes,
              Contains(AllOf(HasSubstr("engines use 1: "),
                             HasSubstr("model.layers.0.self_attn"))));
  s.cache_amax = {{"self_attn", {2.0f, 1.0f}}};
  EXPECT_THAT(Plan(s), Refused(HasSubstr("no largest keys and values of "
                                         "model.layers.0.self_attn")));
  s.dialect = Dialect::kDeepSeek;
  s.format = WeightFormat::kFp8Block;
  EXPECT_THAT(Plan(s),
              Refused(HasSubstr("--dialect deepseek has no scales of caches")));
}

TEST_F(CacheScalesTest, DecodingNamesTheScalesThatItLeavesOut) {
  MadeNvfp4 made = MakeNvfp4("model.layers.0.self_attn.q_proj", 32, 64,
                             Nvfp4Names::kCompressedTensors);
  const std::string scale = "model.layers.0.self_attn.k_scale";
  made.parts.push_back({scale, "F32", {}, FloatBytes({1})});
  WriteModel(At("m"), LlamaConfig(), {made.parts});
  ASSERT_OK_AND_ASSIGN(const auto plan, Plan({.dialect = Dialect::kNone,
                                              .format = WeightFormat::kBf16}));
  EXPECT_EQ(Output(plan, scale), nullptr);
  EXPECT_THAT(plan.notes,
              Contains(HasSubstr("are left out, for example " + scale)));
}

}  // namespace
}  // namespace quantd::checkpoint
