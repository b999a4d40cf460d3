// Compares converted models with the files that a dialect's library writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "client/checkpoint/architecture.h"
#include "tests/client/checkpoint/quantized_writer.h"
#include "tests/client/quantctl/convert_fixture.h"
#include "tests/testing/matchers.h"

namespace quantd {
namespace {

using checkpoint::Model;
using testing::HasSubstr;

// The configuration has the keys that compressed-tensors 0.20 writes for the
// same model. Only module names differ, because they are regular expressions
// here.
TEST_F(Convert, ConfigurationEqualsTheLibrarys) {
  WriteLlama(Fresh("m"));
  MustConvert("m", "made", {"--format", "fp8_dynamic"});
  const auto config = ModelJson::parse(ReadFile(At("made/config.json")));
  EXPECT_EQ(nlohmann::json(config["quantization_config"]),
            nlohmann::json::parse(R"({
    "config_groups": {"FP8_DYNAMIC": {
      "format": "float-quantized",
      "input_activations": {"dynamic": true, "group_size": null,
        "num_bits": 8, "strategy": "token", "symmetric": true,
        "type": "float"},
      "output_activations": null, "targets": ["Linear"],
      "weights": {"dynamic": false, "group_size": null, "num_bits": 8,
        "strategy": "channel", "symmetric": true, "type": "float"}}},
    "format": "float-quantized", "global_compression_ratio": null,
    "ignore": ["re:.*lm_head$"], "kv_cache_scheme": null,
    "moe_sparsity_config": null, "quant_method": "compressed-tensors",
    "quantization_status": "compressed", "transform_config": {},
    "version": "0.20.0"})"));
}

// Like ComfyUI, quantctl recognizes a layer by its label, although the
// directory has ModelOpt's tensor names and a config.json.
TEST_F(Convert, ComfyModelsHaveLabelsAndAreRecognized) {
  WriteLlama(Fresh("m"));
  MustConvert("m", "c", {"--dialect", "comfy"});
  const auto model = Model::Open(At("c"));
  ASSERT_THAT(model, IsOk());
  const auto label =
      BytesOf(*model, model->Find("model.layers.0.mlp.down_proj.comfy_quant"));
  EXPECT_EQ(
      std::string(reinterpret_cast<const char*>(label.data()), label.size()),
      R"({"format": "nvfp4"})");
  const Outcome verified =
      Run({"verify", At("c"), "--original", At("m"), "--server", "local:cpu"});
  EXPECT_EQ(verified.code, 0) << verified.out << verified.err;
  EXPECT_THAT(Run({"compare", At("m"), At("c"), "--json"}),
              Prints(0, HasSubstr("comfy")));
  // ComfyUI uses a language model only as a text encoder.
  const Outcome run =
      RunServed({"convert", At("m"), Fresh("again"), "--dialect", "comfy"});
  EXPECT_THAT(run.out, HasSubstr("as a text encoder"));
}

// Decoding needs no server and has no bytes to verify, so no output mentions
// either.
TEST_F(Convert, DecodingMentionsNeitherServerNorVerify) {
  WriteLlama(Fresh("m"));
  MustConvert("m", "c");
  const Outcome back = Run({"convert", At("c"), Fresh("back"), "--dialect",
                            "none", "--format", "bf16"});
  ASSERT_EQ(back.code, 0) << back.err;
  EXPECT_THAT(back.err, testing::Not(HasSubstr("no server at")));
  EXPECT_THAT(Run({"inspect", At("back")}),
              Prints(0, testing::Not(HasSubstr("profile: "))));
  EXPECT_THAT(Run({"convert", At("m"), At("back"), "--server", "local:cpu"}),
              Errs(7, HasSubstr("name another directory, or remove this")));
}

// Stacked experts, and experts split into separate weights, are both compared
// with the original K x N stack.
TEST_F(Convert, StackedExpertsAreVerifiedAndCompared) {
  const std::string experts = "model.layers.0.mlp.experts.";
  const ModelJson config = {{"model_type", "gpt_oss"},
                            {"hidden_size", 64},
                            {"num_hidden_layers", 1},
                            {"num_local_experts", 3}};
  const auto write = [&](const char* type) {
    ModelJson c = config;
    c["model_type"] = type;
    WriteModel(Fresh("m"), c,
               {{Bf16(experts + "gate_up_proj", {3, 64, 256}),
                 Bf16(experts + "down_proj", {3, 128, 64})}});
  };
  write("gpt_oss");
  MustConvert("m", "c", {"--dialect", "gpt-oss", "--format", "mxfp4"});
  const std::vector<std::string> verify = {"verify", At("c"),    "--original",
                                           At("m"),  "--server", "local:cpu"};
  EXPECT_THAT(
      Run(verify),
      Prints(0,
             HasSubstr("total: 0 of 39168 bytes of quantized weights differ")));
  const Outcome compared = Run({"compare", At("m"), At("c")});
  EXPECT_EQ(compared.code, 0) << compared.err;
  EXPECT_THAT(compared.out, HasSubstr(experts + "gate_up_proj.2"));
  EXPECT_THAT(compared.out, HasSubstr("total: 0 tensors equal, 6 differ; "));
  write("qwen3_vl_moe");
  MustConvert("m", "c", {"--format", "nvfp4"});
  EXPECT_EQ(Run(verify).code, 0);
  const Outcome split = Run({"compare", At("m"), At("c")});
  EXPECT_THAT(split.out, HasSubstr(experts + "2.up_proj"));
  EXPECT_THAT(split.out, HasSubstr("total: 0 tensors equal, 9 differ; "));
  // The output states that most of the model is not quantized.
  write("gpt_oss");
  WriteSafetensors(At("m/model.safetensors"),
                   {Bf16(experts + "gate_up_proj", {3, 64, 256}),
                    Bf16(experts + "gate_up_proj_bias", {3, 256}),
                    Bf16("model.layers.0.self_attn.o_proj.weight", {64, 64})});
  EXPECT_THAT(
      Run({"convert", At("m"), Fresh("n"), "--dry-run"}),
      Prints(0, testing::AllOf(
                    HasSubstr("note: stacks of experts are not quantized: "
                              "91 % of the model"),
                    HasSubstr("only --dialect gpt-oss can store"))));
  // Weights without a counterpart are reported. Two models with no common
  // weight fail the comparison.
  WriteModel(Fresh("other"), config, {{Bf16("x.weight", {64, 64})}});
  EXPECT_THAT(Run({"compare", At("other"), At("c")}),
              Prints(8, HasSubstr("0 differ, 10 not compared")));
}

// Files with the other nibble order would decode to other weights.
TEST_F(Convert, ScaleSearchIsAFormatOfWeightsAndAFlag) {
  WriteModel(Fresh("m"), LlamaConfig(), LlamaShards());
  MustConvert("m", "made", {"--format", "nvfp4_search"});
  MustConvert("m", "again", {"--scale-search"});
  EXPECT_TRUE(FilesOf(At("made")) == FilesOf(At("again")));
  MustConvert("m", "plain");
  EXPECT_FALSE(FilesOf(At("made")) == FilesOf(At("plain")));
  EXPECT_EQ(Run({"lint", At("made")}).code, 0);
  EXPECT_EQ(RunServed({"verify", At("made"), "--original", At("m")}).code, 0);
  EXPECT_THAT(Run({"convert", At("m"), Fresh("other"), "--format", "fp8",
                   "--scale-search"}),
              Errs(2, HasSubstr("--scale-search: only with nvfp4")));
}

TEST_F(Convert, RefusesAProfileOfAnotherNibbleOrder) {
  WriteLlama(Fresh("m"));
  for (const auto& [dialect, profile] :
       {std::pair("modelopt", "comfy@0.2.40"), std::pair("comfy", "te"),
        std::pair("comfy", "modelopt@0.47"), std::pair("comfy", "miles")}) {
    const Outcome run =
        RunServed({"convert", At("m"), Fresh("x"), "--dialect", dialect,
                   "--format", "nvfp4", "--profile", profile});
    EXPECT_NE(run.code, 0) << dialect << " " << profile;
    EXPECT_THAT(run.err, HasSubstr("--profile"));
  }
}

TEST_F(Convert, VerifyReportsUnverifiedWeights) {
  WriteLlama(Fresh("m"));
  MustConvert("m", "c", {"--dialect", "comfy"});
  // One model lacks a label, another one lacks a weight.
  const auto files = [&](std::string_view out) {
    std::vector<WrittenTensor> tensors;
    const auto model = Model::Open(At("c"));
    EXPECT_THAT(model, IsOk());
    for (const auto& t : model->tensors()) {
      if (t.name().starts_with(out)) continue;
      tensors.push_back(
          {t.name(), t.stored.dtype, t.stored.shape, BytesOf(*model, &t)});
    }
    WriteModel(Fresh("d"), LlamaConfig(), {tensors});
  };
  const std::string down = "model.layers.0.mlp.down_proj";
  files(down + ".comfy_quant");
  const std::vector<std::string> verify = {"verify", At("d"),    "--original",
                                           At("m"),  "--server", "local:cpu"};
  EXPECT_THAT(Run(verify), Prints(8, HasSubstr(down + ".comfy_quant")));
  files(down + ".");
  EXPECT_THAT(Run(verify),
              Prints(8, HasSubstr(down + ".weight: the quantized model does "
                                         "not have this weight")));
}

// Returns the model's tensors with each quantized weight decoded to fp32 by the
// oracle's table. A zero code with a NaN scale is zero.
std::vector<WrittenTensor> Fp32Of(const Model& model) {
  std::vector<WrittenTensor> all;
  const auto bytes_of = [&](const checkpoint::ModelTensor& t) {
    std::vector<std::byte> bytes(t.stored.size);
    EXPECT_THAT(model.Read(t, 0, absl::MakeSpan(bytes)), IsOk());
    return bytes;
  };
  for (const auto& t : model.tensors()) {
    const bool of_cache = t.name().ends_with("attn.k_scale") ||
                          t.name().ends_with("attn.v_scale");
    if (t.name().find("scale") != std::string::npos && !of_cache) continue;
    WrittenTensor made = {t.name(), t.stored.dtype, t.stored.shape,
                          bytes_of(t)};
    if (made.dtype == "F8_E4M3") {
      const std::string module(checkpoint::ModuleOf(t.name()));
      const checkpoint::ModelTensor* scales = nullptr;
      for (const char* s : {".weight_scale", ".weight_scale_inv", ".scale"}) {
        if (scales == nullptr) scales = model.Find(module + s);
      }
      EXPECT_NE(scales, nullptr) << module;
      const auto bytes = bytes_of(*scales);
      const auto& shape = scales->stored.shape;
      const int64_t n = made.shape[0], k = made.shape[1];
      const int64_t down = shape.empty() || shape.size() == 1 ? 1 : shape[0];
      const int64_t across = shape.size() < 2 ? 1 : shape[1];
      const int64_t rows = down == 1 ? n : down == n ? 1 : 128;
      const int64_t cols = across == 1 ? k : across == k / 32 ? 32 : 128;
      std::vector<float> values;
      for (int64_t r = 0; r < n; ++r) {
        for (int64_t c = 0; c < k; ++c) {
          const auto at = static_cast<size_t>(r / rows * across + c / cols);
          float scale = 0;
          if (scales->stored.dtype == "F32") {
            std::memcpy(&scale, bytes.data() + 4 * at, 4);
          } else if (scales->stored.dtype == "BF16") {
            uint16_t half = 0;
            std::memcpy(&half, bytes.data() + 2 * at, 2);
            scale = std::bit_cast<float>(uint32_t{half} << 16);
          } else {
            scale = oracle::E8m0Value(static_cast<uint8_t>(bytes[at]));
          }
          const float code = oracle::E4m3Value(
              static_cast<uint8_t>(made.bytes[static_cast<size_t>(r * k + c)]));
          values.push_back(code == 0 ? code : code * scale);
        }
      }
      made.dtype = "F32";
      made.bytes = FloatBytes(values);
    }
    all.push_back(std::move(made));
  }
  return all;
}

// FP8 weights are converted directly to another format. The result has the
// bytes of a conversion of the decoded model.
TEST_F(Convert, RequantizesFp8InOnePass) {
  struct Source {
    const char* dialect;
    const char* format;
    bool powers;  // block scales in E8M0, under DeepSeek's own name
  };
  for (const Source& source :
       {Source{"deepseek", "fp8_block", false},
        Source{"deepseek", "fp8_block", true},
        Source{"compressed-tensors", "fp8", false},
        Source{"compressed-tensors", "fp8_dynamic", false},
        Source{"modelopt", "mxfp8", false}}) {
    SCOPED_TRACE(
        fmt::format("{} {} {}", source.dialect, source.format, source.powers));
    WriteLlama(Fresh("m"));
    MustConvert("m", "q",
                {"--include", "lm_head", "--dialect", source.dialect,
                 "--format", source.format});
    ASSERT_OK_AND_ASSIGN(const auto made, Model::Open(At("q")));
    const ModelJson config = ModelJson::parse(ReadFile(At("q/config.json")));
    std::vector<WrittenTensor> scales;
    std::vector<WrittenTensor> parts = {
        {"model.layers.0.mlp.down_proj.input_scale",
         "F32",
         {},
         FloatBytes({0.25f})}};
    for (const char* name :
         {"0.self_attn.k", "0.self_attn.v", "1.self_attn.k", "1.self_attn.v"}) {
      parts.push_back({fmt::format("model.layers.{}_scale", name),
                       "F32",
                       {},
                       FloatBytes({0.5f})});
    }
    for (const auto& t : made.tensors()) {
      WrittenTensor part = {t.name(), t.stored.dtype, t.stored.shape,
                            BytesOf(made, &t)};
      const size_t cut = part.name.find("weight_scale_inv");
      if (source.powers && cut != std::string::npos) {
        part.name = part.name.substr(0, cut) + "scale";
        part.dtype = "F8_E8M0";
        part.bytes.resize(part.bytes.size() / 4);
        for (size_t i = 0; i < part.bytes.size(); ++i) {
          part.bytes[i] = static_cast<std::byte>(0x70 + i % 5);
        }
        // Makes the scale of a block of zeros NaN.
        if (part.name.ends_with("0.mlp.up_proj.scale")) {
          part.bytes[1] = std::byte{0xFF};
        }
      }
      if (source.powers && part.name.ends_with("0.mlp.up_proj.weight")) {
        std::fill(part.bytes.begin() + 128 * 128, part.bytes.end(),
                  std::byte{0x80});
      }
      const bool of_weight =
          part.name.ends_with("scale") || part.name.ends_with("scale_inv");
      (of_weight ? scales : parts).push_back(std::move(part));
    }
    // The first shard holds only scales, which the conversion drops.
    WriteModel(Fresh("s"), config, {scales, parts});
    EXPECT_THAT(Run({"inspect", At("s")}).out, HasSubstr(source.dialect));
    EXPECT_THAT(Run({"lint", At("s")}).out,
                testing::Not(HasSubstr("unclear-layout")));
    const auto stored = Model::Open(At("s"));
    ASSERT_THAT(stored, IsOk());
    ModelJson plain = config;
    plain.erase("quantization_config");
    WriteModel(Fresh("f"), plain, {Fp32Of(*stored)});
    for (const char* format : {"nvfp4", "fp8_dynamic"}) {
      SCOPED_TRACE(format);
      const Outcome run =
          RunServed({"convert", At("s"), Fresh("one"), "--format", format});
      ASSERT_EQ(run.code, 0) << run.err;
      EXPECT_THAT(run.out, HasSubstr("weights are already quantized"));
      EXPECT_EQ(
          run.out.find("1 blocks of zeros have a scale") != std::string::npos,
          source.powers)
          << run.out;
      MustConvert("f", "two", {"--format", format});
      const auto one = Model::Open(At("one"));
      const auto two = Model::Open(At("two"));
      ASSERT_THAT(one, IsOk());
      ASSERT_THAT(two, IsOk());
      EXPECT_EQ(one->shards().size(), 1u);
      EXPECT_THAT(one->notes(), testing::IsEmpty());
      EXPECT_EQ(one->tensors().size(), two->tensors().size());
      for (const auto& t : two->tensors()) {
        if (t.name() == "lm_head.weight") continue;
        const auto* same = one->Find(t.name());
        ASSERT_NE(same, nullptr) << t.name();
        EXPECT_EQ(same->stored.dtype, t.stored.dtype) << t.name();
        EXPECT_TRUE(BytesOf(*one, same) == BytesOf(*two, &t)) << t.name();
      }
      // Weights that are not quantized again become plain.
      ASSERT_NE(one->Find("lm_head.weight"), nullptr);
      EXPECT_EQ(one->Find("lm_head.weight")->stored.dtype, "BF16");
      EXPECT_EQ(one->config()["quantization_config"],
                two->config()["quantization_config"]);
      EXPECT_NE(one->config()["quantization_config"].dump().find("lm_head"),
                std::string::npos);
      EXPECT_THAT(Run({"verify", At("one"), "--original", At("s"), "--server",
                       "local:cpu"}),
                  Prints(0, HasSubstr("total: 0 of")));
      const Outcome compared = Run({"compare", At("s"), At("one")});
      EXPECT_EQ(compared.code, 0) << compared.out << compared.err;
      const Outcome linted = Run({"lint", At("one"), "--original", At("s")});
      EXPECT_EQ(linted.code, 0) << linted.out << linted.err;
    }
  }
}

}  // namespace
}  // namespace quantd
