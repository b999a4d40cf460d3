// Tests of quantctl's verdicts on whole models: similar to another model, not
// quantized, and which engines load it.
#include <set>

#include "client/checkpoint/report/verdict.h"
#include "client/quantctl/models/engines.h"
#include "tests/client/quantctl/convert_fixture.h"

namespace quantd {
namespace {

using testing::HasSubstr;

class ModelVerdict : public Convert {};

// convert recommends only engines with which the model's class and format were
// run.
TEST_F(ModelVerdict, NextNamesOnlyEnginesThatWereRun) {
  const std::string names[] = {"vllm serve", "sglang", "from_pretrained",
                               "trtllm", "no engine was tested"};
  const auto next = [&](const char* dialect, const char* format,
                        std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"convert",   At("m"), Fresh("made"),
                                      "--dialect", dialect, "--format",
                                      format};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome run = RunServed(words);
    EXPECT_EQ(run.code, 0) << run.err;
    const std::string line = run.out.substr(run.out.find("next: "));
    std::set<std::string> named;
    for (const std::string& name : names) {
      if (line.find(name) != std::string::npos) named.insert(name);
    }
    return named;
  };
  using Named = std::set<std::string>;
  const Named all = {"vllm serve", "sglang", "from_pretrained"};
  const Named both = {"vllm serve", "sglang"};
  const char* ct = "compressed-tensors";
  WriteLlama(Fresh("m"));
  EXPECT_EQ(next(ct, "nvfp4"), all);
  EXPECT_EQ(next(ct, "mxfp8"), (Named{"vllm serve", "from_pretrained"}));
  EXPECT_EQ(next(ct, "mxfp4"), (Named{"vllm serve", "from_pretrained"}));
  EXPECT_EQ(next("modelopt", "nvfp4"), both);
  EXPECT_EQ(next("modelopt", "mxfp8"), Named{"vllm serve"});
  EXPECT_EQ(next("deepseek", "fp8_block"), Named{"vllm serve"});
  const Outcome torn =
      RunServed({"convert", At("m"), Fresh("made"), "--ignore", "*k_proj"});
  EXPECT_THAT(torn.out, HasSubstr("no engine was tested"));
  ModelJson config = LlamaConfig();
  auto shards = LlamaShards();
  config["model_type"] = "qwen3";
  config["architectures"] = {"Qwen3ForCausalLM"};
  WriteModel(Fresh("m"), config, shards);
  EXPECT_EQ(next("deepseek", "fp8_block"), both);
  // SGLang derives this class from Llama's, which does not load such scales.
  config["architectures"] = {"MistralForCausalLM"};
  WriteModel(Fresh("m"), config, shards);
  EXPECT_EQ(next("deepseek", "fp8_block"), Named{"vllm serve"});
  EXPECT_EQ(next("modelopt", "mxfp8"), Named{"vllm serve"});
  // transformers does not have every class of a known type.
  for (const char* name : {"SomeNewModel", "Qwen3ForRewardModel"}) {
    config["architectures"] = {name};
    WriteModel(Fresh("m"), config, shards);
    EXPECT_EQ(next(ct, "nvfp4", {"--include", "*_proj"}),
              Named{"no engine was tested"});
  }
  config["architectures"] = {"Qwen3Model"};
  WriteModel(Fresh("m"), config, shards);
  EXPECT_EQ(next(ct, "nvfp4", {"--include", "*_proj"}),
            Named{"from_pretrained"});
  EXPECT_EQ(next("modelopt", "nvfp4", {"--include", "*_proj"}),
            Named{"no engine was tested"});
  // diffusers loads a variant by name, and no listed class loads a part of a
  // pipeline.
  std::filesystem::remove_all(At("m"));
  std::filesystem::create_directories(At("m"));
  WriteFile(At("m/config.json"), LlamaConfig().dump());
  WriteSafetensors(At("m/model.fp16.safetensors"), shards.back());
  const Outcome variant = RunServed({"convert", At("m"), Fresh("made")});
  EXPECT_THAT(variant.out, HasSubstr("made\", variant=\"fp16\") with"));
  WriteModel(Fresh("m"), {{"_class_name", "FluxTransformer2DModel"}},
             {{Bf16("transformer_blocks.0.attn.to_q.weight", {64, 64})}});
  EXPECT_EQ(next(ct, "nvfp4"), Named{"no engine was tested"});
  // No engine is named for layers with unusual names, draft heads, or models
  // without a class.
  for (const char* name : {"model.layers.0.mamba.in_proj.weight",
                           "model.layers.0.residual_mlp.w1.weight", "fc.weight",
                           "module.model.layers.0.mlp.up_proj.weight",
                           "model.layers.0.norm_proj.weight"}) {
    WriteModel(Fresh("m"), LlamaConfig(),
               {LlamaShards().front(), {Bf16(name, {64, 128})}});
    EXPECT_EQ(next(ct, "nvfp4"), Named{"no engine was tested"}) << name;
  }
  config["architectures"] = {"Eagle3Speculator"};
  WriteModel(Fresh("m"), config,
             {LlamaShards().front(), {Bf16("fc.weight", {64, 128})}});
  EXPECT_EQ(next(ct, "nvfp4", {"--include", "*_proj"}),
            Named{"no engine was tested"});
  ModelJson nameless = LlamaConfig();
  nameless.erase("architectures");
  WriteModel(Fresh("m"), nameless, LlamaShards());
  EXPECT_EQ(next(ct, "nvfp4"), Named{"no engine was tested"});
  // transformers misreads quantized mixtures of experts.
  config["model_type"] = "qwen3_moe";
  config["architectures"] = {"Qwen3MoeForCausalLM"};
  for (const char* leaf : {"gate_proj", "up_proj", "down_proj"}) {
    shards.back().push_back(
        Bf16(fmt::format("model.layers.1.mlp.experts.0.{}.weight", leaf),
             {128, 128}));
  }
  WriteModel(Fresh("m"), config, shards);
  EXPECT_EQ(next(ct, "nvfp4"), both);
  EXPECT_EQ(next(ct, "fp8_dynamic"), both);
  EXPECT_EQ(next(ct, "mxfp4"), Named{"vllm serve"});
  EXPECT_EQ(next("modelopt", "mxfp8"), both);
  config["architectures"] = {"DeepseekV3ForCausalLM"};
  WriteModel(Fresh("m"), config, shards);
  EXPECT_EQ(next(ct, "nvfp4"), Named{"vllm serve"});
  EXPECT_EQ(next(ct, "fp8_dynamic"), both);
  // Latent attention was run with the class DeepseekV3, but not with
  // DeepseekV2.
  shards.back().push_back(
      Bf16("model.layers.1.self_attn.kv_b_proj.weight", {128, 128}));
  WriteModel(Fresh("m"), config, shards);
  EXPECT_EQ(next("modelopt", "nvfp4"), both);
  config["architectures"] = {"DeepseekV2ForCausalLM"};
  WriteModel(Fresh("m"), config, shards);
  EXPECT_EQ(next("modelopt", "nvfp4"), Named{"no engine was tested"});
  // Codes without scales stay codes.
  auto codes = LlamaShards();
  for (WrittenTensor& t : codes.back()) {
    if (!t.name.ends_with("1.mlp.down_proj.weight")) continue;
    t.dtype = "F8_E4M3";
    t.bytes.resize(t.bytes.size() / 2);
  }
  WriteModel(Fresh("m"), LlamaConfig(), codes);
  EXPECT_EQ(next(ct, "nvfp4", {"--ignore", "*1.mlp.down_proj"}),
            Named{"no engine was tested"});
  // No engine is named for a model_type that was not run.
  config = LlamaConfig();
  config["model_type"] = "mimo";
  WriteModel(Fresh("m"), config, LlamaShards());
  EXPECT_EQ(next(ct, "nvfp4"), Named{"no engine was tested"});
  // No engine is named for an MTP head, or for Cohere's layers with one norm.
  auto further = LlamaShards();
  further.back().push_back(
      Bf16("model.mtp_block.0.self_attn.q_proj.weight", {128, 128}));
  auto norms = LlamaShards();
  for (auto& shard : norms) {
    std::erase_if(shard, [](const auto& t) {
      return t.name.ends_with("post_attention_layernorm.weight");
    });
  }
  for (const auto& other : {further, norms}) {
    WriteModel(Fresh("m"), LlamaConfig(), other);
    EXPECT_EQ(next(ct, "nvfp4"), Named{"no engine was tested"});
  }
}

TEST_F(ModelVerdict, EngineRunsNameExistingFormats) {
  const std::set<std::string_view> kinds = {"dense", "experts", "images",
                                            "encoder", "other"};
  const std::set<std::string_view> outcomes = {"ran", "loaded", "refused",
                                               "wrong", "not run"};
  for (const quantctl::EngineRun& run : quantctl::EngineRuns()) {
    SCOPED_TRACE(fmt::format("{} {} {}", run.tried_with.engine, run.dialect,
                             run.formats));
    const auto dialect = checkpoint::ParseDialect(run.dialect);
    ASSERT_TRUE(dialect);
    EXPECT_EQ(kinds.count(run.kind), 1u) << run.kind;
    EXPECT_EQ(outcomes.count(run.outcome), 1u) << run.outcome;
    const bool good = run.outcome == "ran" || run.outcome == "loaded";
    EXPECT_TRUE(good || !run.said.empty());
    EXPECT_FALSE(run.tried_with.version.empty() || run.tried.empty());
    std::string formats(run.formats);
    while (!formats.empty()) {
      const std::string one = formats.substr(0, formats.find(", "));
      formats.erase(0, one.size() + 2);
      const std::string alone = one.substr(0, one.find(" with "));
      for (const std::string& part : {alone.substr(0, alone.find(' ')),
                                      alone.substr(alone.rfind(' ') + 1)}) {
        const auto format = checkpoint::ParseWeightFormat(part);
        EXPECT_TRUE(format && checkpoint::FindLayout(*dialect, *format)) << one;
      }
    }
  }
}

// The usual SQNR, by which models are judged, holds for every format.
TEST_F(ModelVerdict, FormatsGiveNormalNumbersTheirUsualDb) {
  using checkpoint::WeightFormat;
  const std::string name = "model.layers.0.mlp.down_proj.weight";
  ModelJson config = LlamaConfig();
  for (const float scale : {0.02f, 0.0133f}) {
    WriteModel(Fresh("m"), config, {{Bf16(name, {256, 1024}, scale)}});
    for (const auto& [format, dialect] :
         {std::pair{WeightFormat::kNvfp4, "compressed-tensors"},
          std::pair{WeightFormat::kNvfp4, "modelopt"},
          std::pair{WeightFormat::kNvfp4, "comfy"},
          std::pair{WeightFormat::kNvfp4FourOverSix, "compressed-tensors"},
          std::pair{WeightFormat::kNvfp4Search, "compressed-tensors"},
          std::pair{WeightFormat::kNvfp4Search, "modelopt"},
          std::pair{WeightFormat::kFp8, "compressed-tensors"},
          std::pair{WeightFormat::kFp8Dynamic, "compressed-tensors"},
          std::pair{WeightFormat::kFp8Block, "compressed-tensors"},
          std::pair{WeightFormat::kFp8Block, "deepseek"},
          std::pair{WeightFormat::kMxfp8, "modelopt"},
          std::pair{WeightFormat::kMxfp4, "compressed-tensors"}}) {
      SCOPED_TRACE(fmt::format("{} by {}", Name(format), dialect));
      MustConvert(
          "m", "made",
          {"--dialect", dialect, "--format", std::string(Name(format))});
      const Outcome compared = Run({"compare", At("m"), At("made"), "--json"});
      EXPECT_EQ(compared.code, 0);
      const auto tensor = ModelJson::parse(compared.out)["tensors"][0];
      EXPECT_NEAR(tensor["sqnr_db"].get<double>(), checkpoint::UsualDb(format),
                  format == WeightFormat::kMxfp4 ? 0.5 : 0.15);
      EXPECT_EQ(tensor["below"], false);
    }
  }
}

TEST_F(ModelVerdict, CompareTellsAnotherModelFromAQuantizedOne) {
  WriteLlama(Fresh("m"));
  MustConvert("m", "made");
  const Outcome good = Run({"compare", At("m"), At("made")});
  EXPECT_EQ(good.code, 0);
  EXPECT_THAT(good.out, HasSubstr("verdict: none of the 14 tensors that differ "
                                  "is below half the usual SQNR"));
  EXPECT_EQ(Run({"compare", At("m"), At("made"), "--fail-below", "19"}).code,
            0);
  EXPECT_EQ(Run({"compare", At("m"), At("made"), "--fail-below", "21"}).code,
            8);
  // The other model has the same names and shapes, but one weight with other
  // signs.
  auto shards = LlamaShards();
  for (auto& shard : shards) {
    for (WrittenTensor& t : shard) {
      if (t.name != "model.layers.1.mlp.down_proj.weight") continue;
      for (size_t i = 1; i < t.bytes.size(); i += 2)
        t.bytes[i] ^= std::byte{128};
    }
  }
  WriteModel(Fresh("other"), LlamaConfig(), shards);
  const Outcome other = Run({"compare", At("other"), At("made")});
  EXPECT_EQ(other.code, 8);
  EXPECT_THAT(other.out,
              HasSubstr("verdict: 1 of the 14 tensors that differ is below "
                        "what their formats give; the worst is "
                        "model.layers.1.mlp.down_proj with -6.0"));
  const auto json =
      ModelJson::parse(Run({"compare", At("other"), At("made"), "--json"}).out);
  EXPECT_EQ(json["exit_code"], 8);
  EXPECT_LT(json["sqnr_db"].get<double>(), 20.0);
  // The verdict is the same between plain models and in the other direction.
  EXPECT_THAT(Run({"compare", At("other"), At("m")}),
              Prints(8, HasSubstr("down_proj with -6.02 dB: 32768 of its "
                                  "numbers changed, although it is not")));
  EXPECT_EQ(Run({"compare", At("made"), At("other")}).code, 8);
  EXPECT_EQ(
      Run({"compare", At("other"), At("made"), "--fail-below", "-7"}).code, 0);
  // Added tensors count. compare does not look at config.json.
  EXPECT_THAT(good.out, HasSubstr("config.json was not checked"));
  auto more = shards;
  more.back().push_back(Bf16("model.layers.1.mlp.up_proj.bias", {256}));
  WriteModel(Fresh("more"), LlamaConfig(), more);
  EXPECT_THAT(Run({"compare", At("other"), At("more")}),
              Prints(8, HasSubstr("1 tensor is only in the second model")));
  // Missing tensors count.
  shards.back().pop_back();
  WriteModel(Fresh("short"), LlamaConfig(), shards);
  EXPECT_THAT(
      Run({"compare", At("other"), At("short")}),
      Prints(8, HasSubstr("1 tensor of the first model was not compared")));
}

TEST_F(ModelVerdict, VerifyAcceptsScaleNamesAndInspectNamesOddTensors) {
  WriteLlama(Fresh("m"));
  MustConvert("m", "made", {"--dialect", "deepseek", "--format", "fp8_block"});
  ASSERT_OK_AND_ASSIGN(const auto made, checkpoint::Model::Open(At("made")));
  const auto write = [&](const char* dtype) {
    std::vector<WrittenTensor> tensors;
    for (const auto& t : made.tensors()) {
      WrittenTensor part = {t.name(), t.stored.dtype, t.stored.shape,
                            BytesOf(made, &t)};
      if (const size_t cut = part.name.find("weight_scale_inv");
          cut != std::string::npos) {
        part.name = part.name.substr(0, cut) + "scale";
        part.dtype = dtype;
        part.bytes.resize(part.dtype == "F32" ? part.bytes.size()
                                              : part.bytes.size() / 4);
      }
      tensors.push_back(std::move(part));
    }
    tensors.push_back(Bf16("model.layers.0.mlp.gone.weight_scale", {2, 2}));
    tensors.push_back(Bf16("model.layers.0.conv.weight_g", {2, 1, 1}));
    WriteModel(Fresh("other"),
               ModelJson::parse(ReadFile(At("made/config.json"))), {tensors});
  };
  const auto verify = [&] {
    return RunServed({"verify", At("other"), "--original", At("m")});
  };
  write("F32");
  EXPECT_EQ(verify().code, 0) << verify().out;
  write("F8_E8M0");
  EXPECT_THAT(
      verify(),
      Prints(8, testing::AllOf(
                    HasSubstr("down_proj.scale has the type F8_E8M0, but "
                              "the profile deepgemm writes F32"),
                    HasSubstr(
                        "total: 0 of 0 bytes of quantized weights differ"))));
  const Outcome seen = Run({"inspect", At("other")});
  EXPECT_THAT(seen.out,
              HasSubstr("orphaned: model.layers.0.mlp.gone: the scales"));
  EXPECT_THAT(seen.out, HasSubstr("factored: model.layers.0.conv: weight_g"));
  const auto json =
      ModelJson::parse(Run({"inspect", At("other"), "--json"}).out);
  EXPECT_EQ(json["orphaned"][0]["module"], "model.layers.0.mlp.gone");
  // Rotations are named by inspect and by lint.
  ModelJson config = ModelJson::parse(ReadFile(At("made/config.json")));
  config["quantization_config"]["transform_config"] = {
      {"config_groups", {{"R4", ModelJson::object()}}}};
  WriteFile(At("made/config.json"), config.dump());
  for (const char* command : {"inspect", "lint"}) {
    EXPECT_THAT(Run({command, At("made")}).out,
                HasSubstr("quantization_config has a transform_config (R4): "
                          "weights are rotated"));
  }
}

TEST_F(ModelVerdict, LintSaysThatAModelIsNotQuantized) {
  WriteLlama(Fresh("m"));
  MustConvert("m", "made");
  const Outcome plain = Run({"lint", At("m")});
  EXPECT_EQ(plain.code, 8);
  EXPECT_THAT(plain.out,
              HasSubstr("it has no quantized weights; is this the original?"));
  EXPECT_THAT(plain.out, HasSubstr("next: no-quantized-weight: lint the "
                                   "quantized model: quantctl lint QUANTIZED "
                                   "--original " +
                                   At("m")));
  const Outcome swapped =
      Run({"lint", At("m"), "--original", At("made"), "--json"});
  EXPECT_EQ(swapped.code, 8);
  const auto json = ModelJson::parse(swapped.out);
  EXPECT_EQ(json["exit_code"], 8);
  ASSERT_EQ(json["findings"].size(), 1u);
  EXPECT_EQ(json["findings"][0]["rule"], "no-quantized-weight");
  EXPECT_EQ(json["next"][0], "no-quantized-weight: quantctl lint " +
                                 At("made") + " --original " + At("m"));
  // repair accepts a plain model without a finding.
  const Outcome repaired = Run({"repair", At("m"), Fresh("mended")});
  EXPECT_EQ(repaired.code, 0) << repaired.out;
}

}  // namespace
}  // namespace quantd
