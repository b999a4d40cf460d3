// Tests of what lint examines, how many rows of it, and how it reports many
// faults.
#include "client/checkpoint/lint/lint.h"

#include "client/checkpoint/architecture.h"
#include "client/checkpoint/check/declared.h"
#include "client/checkpoint/check/reading.h"
#include "tests/client/checkpoint/fault.h"
#include "tests/client/checkpoint/model_fixture.h"
#include "tests/client/checkpoint/planted.h"

namespace quantd::checkpoint {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

using LintTest = ModelFixture;

TEST_F(LintTest, MergesManyFaultsOfARule) {
  Findings findings;
  for (int i = 0; i < 10000; ++i) {
    findings.Add("bad-scale", fmt::format("model.layers.{}.x", i), "it is 0");
    // Two checks of a rule may find a fault in the same module, which counts
    // once.
    findings.Add("bad-scale", fmt::format("model.layers.{}.x", i), "again");
    findings.Add("config", "config.json", "a key", fmt::format("{}", i));
  }
  const std::vector<Finding> all = findings.Take();
  EXPECT_LT(all.size(), 20u);
  EXPECT_EQ(all.front().count, 10000u);
  size_t keys = 0;
  for (const Finding& f : all) keys += f.rule == "config" ? f.count : 0;
  EXPECT_EQ(keys, 10000u);
}

TEST_F(LintTest, ReportsHowMuchWasCompared) {
  const Planted p = Clean(Nvfp4Names::kCompressedTensors);
  const Model model = WritePlanted(At("q"), p);
  const Model original = WritePlantedOriginal(At("o"), p);
  ASSERT_OK_AND_ASSIGN(const auto linted, Lint(model, &original));
  EXPECT_THAT(linted.findings, IsEmpty());
  EXPECT_EQ(linted.weights, 3u);
  EXPECT_EQ(linted.compared, 3u);
  EXPECT_EQ(linted.compared_others, 3u);
  EXPECT_EQ(linted.share, 1);
}

// Some programs take the two models in the opposite order.
TEST_F(LintTest, RecognizesSwappedModels) {
  const Planted p = Clean(Nvfp4Names::kCompressedTensors);
  const Model model = WritePlanted(At("q"), p);
  const Model original = WritePlantedOriginal(At("o"), p);
  ASSERT_OK_AND_ASSIGN(const auto linted, Lint(original, &model));
  ASSERT_EQ(linted.findings.size(), 1u);
  EXPECT_EQ(linted.findings[0].rule, kNothing);
  EXPECT_EQ(linted.findings[0].text,
            "it has no quantized weights, but " + At("q") +
                " has 3: did you swap the two models?");
}

TEST_F(LintTest, ComparesStackedExpertsOneByOne) {
  MadeStack stack;
  const std::string name = MadeStack::kName;
  std::vector<std::byte>& blocks = stack.blocks;
  stack.WriteOriginal(At("o"));
  const auto write = [&] {
    stack.Write(At("q"));
    return *Model::Open(At("q"));
  };
  const Model original = *Model::Open(At("o"));
  ASSERT_OK_AND_ASSIGN(const auto clean, Lint(write(), &original));
  EXPECT_EQ(clean.weights, 3u);
  EXPECT_EQ(clean.compared, 3u);
  for (const Finding& f : clean.findings) {
    EXPECT_NE(f.rule, "not-the-original") << f.text;
    EXPECT_NE(f.rule, "no-counterpart") << f.text;
    EXPECT_NE(f.rule, "dead-weight") << f.text;
  }
  // Spoils a row of the last expert.
  for (size_t i = blocks.size() - 32; i < blocks.size(); ++i) {
    blocks[i] ^= std::byte{0x88};
  }
  ASSERT_OK_AND_ASSIGN(const auto faulty, Lint(write(), &original));
  bool found = false;
  for (const Finding& f : faulty.findings) {
    if (f.rule != "not-the-original") continue;
    found = true;
    EXPECT_EQ(f.where, name + ".2");
    EXPECT_THAT(f.text, HasSubstr("1 of the 64 rows examined"));
    EXPECT_THAT(f.text, Not(HasSubstr("experts")));
  }
  EXPECT_TRUE(found);
  // If several experts are wrong, the worst one is shown.
  for (size_t i = 0; i < 32; ++i) blocks[i] ^= std::byte{0x88};
  ASSERT_OK_AND_ASSIGN(const auto several, Lint(write(), &original));
  EXPECT_EQ(
      std::count_if(several.findings.begin(), several.findings.end(),
                    [](const Finding& f) {
                      return f.text.ends_with("; 2 of its 3 experts are wrong");
                    }),
      1);
}

TEST_F(LintTest, ExaminesAllRowsOfSmallModelsAndSomeOfLargeOnes) {
  WriteLlama(At("m"));
  const RowSample all(*Model::Open(At("m")));
  EXPECT_EQ(all.share(), 1);
  int64_t rows = 0;
  for (const auto& run : all.Of(5000, 4096)) {
    EXPECT_EQ(run.begin, rows);
    rows += run.count;
  }
  EXPECT_EQ(rows, 5000);
  // A sparse file of 16 GiB.
  const std::string path = At("large.safetensors");
  const std::string header =
      R"({"x.weight":{"dtype":"U8","shape":[17179869184],)"
      R"("data_offsets":[0,17179869184]}})";
  const auto size = static_cast<uint64_t>(header.size());
  WriteFile(path,
            std::string(reinterpret_cast<const char*>(&size), 8) + header);
  std::filesystem::resize_file(path, 8 + header.size() + (uint64_t{16} << 30));
  const RowSample some(*Model::Open(path));
  EXPECT_EQ(some.share(), 1.0 / 16);
  const auto runs = some.Of(4096, 4096);
  EXPECT_EQ(runs.size(), 256u);
  EXPECT_EQ(runs.front().begin, 0);
  EXPECT_EQ(runs.back().begin, 4095);
  // A few rows of every weight, however many there are.
  EXPECT_EQ(some.Of(128, 4096).size(),
            static_cast<size_t>(RowSample::kLeastRows));
  for (const auto& run : some.Of(4096, 4096, 32)) EXPECT_EQ(run.count, 32);
}

TEST_F(LintTest, ReadsListsLikeEngines) {
  using Rule = ModuleList::Rule;
  const std::string down = "model.layers.1.mlp.down_proj";
  struct Case {
    Rule rule;
    const char* entry;
    bool names;
    bool may_name;
  };
  for (const Case& c : {
           Case{Rule::kExactOrRegular, "model.layers.1.mlp.down_proj", true,
                true},
           Case{Rule::kExactOrRegular, "re:.*down_proj$", true, true},
           Case{Rule::kExactOrRegular, "re:down_proj", false, false},
           Case{Rule::kExactOrRegular, "re:.*layers.1.*", true, true},
           Case{Rule::kExactOrRegular, "layers.1.mlp.down_proj", false, false},
           Case{Rule::kExactOrRegular, "model.layers.1.mlp", false, false},
           Case{Rule::kExactOrRegular, "model.layers.1.*", false, false},
           Case{Rule::kExactOrRegular, "re:(?!.*up_proj).*", false, true},
           Case{Rule::kExactOrRegular,
                "language_model.model.layers.1.mlp.down_proj", false, true},
           Case{Rule::kGlobs, "model.layers.1*", true, true},
           Case{Rule::kGlobs, "*down_proj", true, true},
           Case{Rule::kGlobs, "model.layers.1.mlp", false, true},
           Case{Rule::kGlobs, "model.layers.2*", false, false},
           Case{Rule::kPrefixes, "model.layers.1.mlp", true, true},
           Case{Rule::kPrefixes, "model.layers.*.mlp", false, true},
           Case{Rule::kPrefixes, "model.layers.1.mlp.down", false, true},
           Case{Rule::kPrefixes, "model.layers.11.mlp", false, false},
       }) {
    const Json list = {c.entry};
    const ModuleList modules(&list, c.rule);
    EXPECT_EQ(modules.Names(down), c.names) << c.entry;
    EXPECT_EQ(modules.MayName(down), c.may_name) << c.entry;
    EXPECT_THAT(modules.broken(), IsEmpty()) << c.entry;
  }
  const Json broken = {"re:(", 7, nullptr, "lm_head"};
  const ModuleList modules(&broken, Rule::kExactOrRegular);
  EXPECT_EQ(modules.broken().size(), 1u);
  EXPECT_TRUE(modules.Names("lm_head"));
  const Json text = "lm_head";
  EXPECT_TRUE(ModuleList(&text, Rule::kGlobs).empty());
}

// Python writes infinities into JSON, and transformers reads them.
TEST_F(LintTest, AcceptsInfinitiesInAConfiguration) {
  WritePlanted(At("q"), Clean(Nvfp4Names::kCompressedTensors));
  const std::string path = At("q/config.json");
  WriteFile(path,
            R"({"time_step_limit": [0.0, Infinity], "least": -Infinity,)" +
                ReadFile(path).substr(1));
  ASSERT_OK_AND_ASSIGN(const auto model, Model::Open(At("q")));
  EXPECT_EQ(model.config()["time_step_limit"][1], INFINITY);
  ASSERT_OK_AND_ASSIGN(const auto linted, Lint(model));
  EXPECT_THAT(linted.findings, IsEmpty());
}

TEST_F(LintTest, AcceptsComfyMetadataInsteadOfLabels) {
  WritePlanted(At("q"), CleanOf(Base::kComfy));
  ModelJson text = {{"layers", ModelJson::object()}};
  for (const std::string& module : {kQ, kK, kV}) {
    text["layers"][module] = {{"format", "nvfp4"}};
  }
  PutComfyMetadata(At("q"), text.dump());
  ASSERT_OK_AND_ASSIGN(const auto linted, Lint(*Model::Open(At("q"))));
  EXPECT_THAT(linted.findings, IsEmpty());
  EXPECT_EQ(linted.weights, 3u);
}

// The model is one file with FP8 beside NVFP4, and has no config.json.
TEST_F(LintTest, AcceptsComfyLabelsWithoutAConfiguration) {
  Planted p = CleanOf(Base::kComfy);
  const std::string fp8 = kV + ".weight";
  p.tensors = CleanOf(Base::kFp8).tensors;
  for (const auto& [name, t] : CleanOf(Base::kComfy).tensors) {
    if (!name.starts_with(kV)) p.tensors[name] = t;
  }
  const std::string label = R"({"format": "float8_e4m3fn"})";
  std::vector<std::byte> bytes(label.size());
  std::memcpy(bytes.data(), label.data(), label.size());
  p.tensors[kV + ".comfy_quant"] = {
      kV + ".comfy_quant", "U8", {static_cast<int64_t>(label.size())}, bytes};
  WritePlanted(At("q"), p);
  std::filesystem::remove(At("q/config.json"));
  ASSERT_OK_AND_ASSIGN(const auto linted, Lint(*Model::Open(At("q"))));
  EXPECT_THAT(linted.findings, IsEmpty());
  EXPECT_EQ(linted.weights, 3u);
}

TEST_F(LintTest, AcceptsAQuantizedHeadTiedToTheEmbeddings) {
  Planted p = Clean(Nvfp4Names::kCompressedTensors);
  p.config["tie_word_embeddings"] = true;
  p.tensors.erase("lm_head.weight");
  const MadeNvfp4 made = MakeNvfp4("lm_head", 16, 64, p.names);
  for (const WrittenTensor& t : made.parts) p.tensors[t.name] = t;
  p.part("model.embed_tokens.weight").bytes = made.plain.bytes;
  ModelJson& q = p.config["quantization_config"];
  q["ignore"] = ModelJson::array();
  q["config_groups"]["group_0"]["targets"].push_back("re:.*lm_head$");
  ASSERT_OK_AND_ASSIGN(const auto linted, Lint(WritePlanted(At("q"), p)));
  EXPECT_THAT(linted.findings, IsEmpty());
}

// Zeros that the original has, too, are not a fault of the conversion.
TEST_F(LintTest, AcceptsZeroWeightsThatTheOriginalHas) {
  for (const Nvfp4Names names :
       {Nvfp4Names::kCompressedTensors, Nvfp4Names::kModelOpt}) {
    Planted p = Clean(names);
    const bool ct = names == Nvfp4Names::kCompressedTensors;
    const std::string v = std::string(kAttention) + "v_proj.weight";
    for (std::byte& b : p.part(v + (ct ? "_packed" : "")).bytes) b = {};
    // Scales of zeros as compressed-tensors and as ModelOpt write them.
    for (std::byte& b : p.part(v + "_scale").bytes) {
      b = ct ? std::byte{0x08} : std::byte{0x38};
    }
    for (WrittenTensor& t : p.original) {
      if (t.name != v) continue;
      for (std::byte& b : t.bytes) b = {};
    }
    const Model model = WritePlanted(At("q"), p);
    const Model original = WritePlantedOriginal(At("o"), p);
    ASSERT_OK_AND_ASSIGN(const auto alone, Lint(model));
    EXPECT_THAT(alone.findings, Not(IsEmpty()));
    ASSERT_OK_AND_ASSIGN(const auto linted, Lint(model, &original));
    EXPECT_THAT(linted.findings, IsEmpty());
  }
}

TEST_F(LintTest, AcceptsFilesOfOtherPrograms) {
  WritePlanted(At("q"), Clean(Nvfp4Names::kCompressedTensors));
  WriteSafetensors(At("q/adapter_model.safetensors"),
                   {Bf16("base.lora_A.weight", {2, 64})});
  ASSERT_OK_AND_ASSIGN(const auto model, Model::Open(At("q")));
  EXPECT_EQ(model.shards().size(), 1u);
  EXPECT_THAT(model.notes().front(),
              HasSubstr("copied as they are, unquantized: adapter_model"));
  EXPECT_THAT(model.others(), testing::Contains("adapter_model.safetensors"));
  ASSERT_OK_AND_ASSIGN(const auto linted, Lint(model));
  EXPECT_THAT(linted.findings, IsEmpty());
}

// ComfyUI fuses no modules and loads stacked experts in bf16.
TEST_F(LintTest, AcceptsPlainModulesInComfyModels) {
  Planted p = CleanOf(Base::kComfy);
  for (const char* end :
       {"weight", "weight_scale", "weight_scale_2", "comfy_quant"}) {
    p.tensors.erase(std::string(kAttention) + "v_proj." + end);
  }
  for (const WrittenTensor& t :
       {Bf16(std::string(kAttention) + "v_proj.weight", {32, 64}),
        Bf16("model.layers.0.mlp.experts.gate_up_proj", {2, 32, 64})}) {
    p.tensors[t.name] = t;
  }
  ASSERT_OK_AND_ASSIGN(const auto linted, Lint(WritePlanted(At("q"), p)));
  for (const Finding& f : linted.findings) {
    EXPECT_NE(f.rule, "fused-in-part") << f.text;
    EXPECT_NE(f.rule, "stacked-experts") << f.text;
  }
}

// A missing label is reported once, without further findings.
TEST_F(LintTest, ReportsAMissingLabelOnce) {
  Planted p = CleanOf(Base::kComfy);
  p.tensors.erase(std::string(kAttention) + "q_proj.comfy_quant");
  const Model original = WritePlantedOriginal(At("o"), p);
  ASSERT_OK_AND_ASSIGN(const auto linted,
                       Lint(WritePlanted(At("q"), p), &original));
  ASSERT_EQ(linted.findings.size(), 1u);
  EXPECT_EQ(linted.findings.front().rule, "label");
}

// Error feedback yields codes that are not the nearest ones. They are counted,
// but are not a fault.
TEST_F(LintTest, CountsCodesThatAreNotTheNearest) {
  Planted p = Clean(Nvfp4Names::kCompressedTensors);
  std::mt19937 random(3);
  for (WrittenTensor& t : p.original) {
    if (!t.name.ends_with("_proj.weight")) continue;
    for (size_t i = 0; i + 1 < t.bytes.size(); i += 2) {
      // Moves the number by up to 35 %, about one step of four bits.
      uint16_t bits = 0;
      std::memcpy(&bits, t.bytes.data() + i, 2);
      const float x = oracle::ElementValue(oracle::Element::kBF16, bits);
      const float factor =
          1 + 0.35f * (static_cast<float>(random() % 201) / 100 - 1);
      const auto moved =
          oracle::FromValues(oracle::Element::kBF16, {x * factor});
      std::memcpy(t.bytes.data() + i, moved.data(), 2);
    }
  }
  const Model original = WritePlantedOriginal(At("o"), p);
  ASSERT_OK_AND_ASSIGN(const auto linted,
                       Lint(WritePlanted(At("q"), p), &original));
  EXPECT_THAT(linted.findings, IsEmpty());
  EXPECT_EQ(linted.not_nearest, 3u);
}

// Layers may differ by design: the first is dense, and the last is an MTP head.
TEST_F(LintTest, AcceptsDenseLayersBeforeSparseOnes) {
  std::vector<WrittenTensor> tensors = {
      Bf16("model.embed_tokens.weight", {16, 64}),
      Bf16("model.norm.weight", {64}), Bf16("lm_head.weight", {16, 64})};
  for (int layer = 0; layer < 4; ++layer) {
    const std::string at = fmt::format("model.layers.{}.", layer);
    tensors.push_back(Bf16(at + "input_layernorm.weight", {64}));
    tensors.push_back(Bf16(at + "self_attn.kv_b_proj.weight", {64, 64}));
    if (layer == 3) tensors.push_back(Bf16(at + "eh_proj.weight", {64, 128}));
    if (layer == 0) {
      tensors.push_back(Bf16(at + "mlp.down_proj.weight", {64, 128}));
      continue;
    }
    tensors.push_back(Bf16(at + "mlp.gate.weight", {2, 64}));
    for (int e = 0; e < 2; ++e) {
      tensors.push_back(Bf16(
          fmt::format("{}mlp.experts.{}.down_proj.weight", at, e), {64, 32}));
    }
  }
  const ModelJson config = {
      {"model_type", "deepseek_v3"}, {"hidden_size", 64},
      {"num_hidden_layers", 3},      {"num_nextn_predict_layers", 1},
      {"first_k_dense_replace", 1},  {"n_routed_experts", 2},
      {"tie_word_embeddings", false}};
  WriteModel(At("m"), config, {tensors});
  ASSERT_OK_AND_ASSIGN(const auto linted, Lint(*Model::Open(At("m"))));
  for (const Finding& f : linted.findings) {
    if (f.rule != kNothing)
      ADD_FAILURE() << f.rule << " " << f.where << ": " << f.text;
  }
}

}  // namespace
}  // namespace quantd::checkpoint
