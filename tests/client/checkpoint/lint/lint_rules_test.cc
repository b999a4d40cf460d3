// Tests that every rule of lint finds the faults planted for it, and nothing in
// the clean models.
#include <set>

#include "client/checkpoint/lint/lint.h"
#include "tests/client/checkpoint/fault.h"
#include "tests/client/checkpoint/model_fixture.h"

namespace quantd::checkpoint {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class LintRulesTest : public ModelFixture {
 protected:
  // Plants a fault and returns the broken rules, each with its location and
  // reason.
  std::string Lints(const Fault& c) {
    Planted p = CleanOf(c.base);
    if (c.plant) c.plant(p);
    WritePlanted(At("q"), p);
    if (c.spoil) c.spoil(At("q"));
    Planted clean = CleanOf(c.base);
    const Model original = WritePlantedOriginal(At("o"), clean);
    const auto model = Model::Open(At("q"));
    std::vector<Finding> findings;
    if (model.ok()) {
      const auto linted = Lint(*model, c.with_original ? &original : nullptr);
      EXPECT_THAT(linted, IsOk());
      if (linted.ok()) findings = linted->findings;
    } else if (auto unopened = LintUnopened(At("q"), model.status())) {
      findings = unopened->findings;
    }
    std::string text;
    for (const Finding& f : findings) {
      text += fmt::format("{} {}: {} ({}); ", f.rule, f.where, f.text, f.count);
    }
    return text;
  }
};

TEST_F(LintRulesTest, FindsNothingInCleanModels) {
  for (const Base base : {Base::kCompressedTensors, Base::kModelOpt, Base::kFp8,
                          Base::kDeepSeek, Base::kComfy}) {
    EXPECT_EQ(Lints({"", base, {}, ""}), "");
  }
  for (const Base base : {Base::kCompressedTensors, Base::kModelOpt, Base::kFp8,
                          Base::kDeepSeek, Base::kComfy}) {
    EXPECT_EQ(Lints({"", base, {}, "", /*with_original=*/true}), "");
  }
}

TEST_F(LintRulesTest, AcceptsExpressionsThatMatchUnderEveryPrefix) {
  EXPECT_EQ(Lints({"", Base::kCompressedTensors, Nest, ""}), "");
  const auto two_groups = [](Planted& p) {
    Nest(p);
    ModelJson& groups = p.config["quantization_config"]["config_groups"];
    groups["other"] = groups["group_0"];
    groups["other"]["targets"] = {R"(re:.*self_attn\.(q|k|v|o|qkv)_proj$)"};
  };
  EXPECT_EQ(Lints({"", Base::kCompressedTensors, two_groups, ""}), "");
}

// A single scale of a single row can be a row scale or a block scale.
TEST_F(LintRulesTest, ConfigurationDecidesWhatASingleScaleIs) {
  const auto one_row = [](Planted& p) {
    const std::string name = "model.layers.0.self_attn.one_proj.weight";
    p.tensors[name] = {name, "F8_E4M3", {1, 64}, std::vector<std::byte>(64)};
    p.tensors[name + "_scale"] = {
        name + "_scale", "F32", {1, 1}, FloatBytes({1})};
    ModelJson& q = p.config["quantization_config"];
    q["format"] = "mixed-precision";
    q["config_groups"]["rows"] = {{"targets", {"re:.*one_proj$"}},
                                  {"format", "float-quantized"},
                                  {"weights",
                                   {{"num_bits", 8},
                                    {"type", "float"},
                                    {"strategy", "channel"},
                                    {"symmetric", true},
                                    {"dynamic", false}}},
                                  {"input_activations",
                                   {{"num_bits", 8},
                                    {"type", "float"},
                                    {"strategy", "token"},
                                    {"symmetric", true},
                                    {"dynamic", true}}}};
    q["config_groups"]["group_0"]["format"] = "nvfp4-pack-quantized";
  };
  EXPECT_THAT(Lints({"", Base::kCompressedTensors, one_row, ""}),
              testing::Not(HasSubstr("config-mismatch")));
}

// In DeepSeek's models kv_a_proj_with_mqa is the last member of a fused module.
TEST_F(LintRulesTest, LastFusedMemberMayEndInsideABlock) {
  const auto last = [](Planted& p) {
    for (const char* end : {".weight", ".weight_scale_inv"}) {
      Rename(&p, kQ + end, std::string(kAttention) + "q_a_proj" + end);
      Rename(&p, kK + end,
             std::string(kAttention) + "kv_a_proj_with_mqa" + end);
    }
    const std::string codes =
        std::string(kAttention) + "kv_a_proj_with_mqa.weight";
    p.part(codes) = {codes,
                     "F8_E4M3",
                     {64, 64},
                     std::vector<std::byte>(64 * 64, std::byte{0x38})};
  };
  EXPECT_THAT(Lints({"", Base::kDeepSeek, last, ""}),
              testing::Not(HasSubstr("fused-squares")));
  // For an unknown model the fusion is only a guess, so a partial block is not
  // a fault.
  const auto guessed = [&](Planted& p) {
    last(p);
    p.config["model_type"] = "odd";
    for (const char* end : {".weight", ".weight_scale_inv"}) {
      Rename(&p, std::string(kAttention) + "kv_a_proj_with_mqa" + end,
             std::string(kAttention) + "x_a_proj" + end);
      Rename(&p, std::string(kAttention) + "q_a_proj" + end,
             std::string(kAttention) + "y_a_proj" + end);
    }
  };
  EXPECT_THAT(Lints({"", Base::kDeepSeek, guessed, ""}),
              testing::Not(HasSubstr("fused-squares")));
}

// ERNIE's experts for images are smaller than those for text.
TEST_F(LintRulesTest, ExpertsOfTwoKindsMayDifferInShape) {
  const auto kinds = [](Planted& p) {
    p.config["model_type"] = "ernie4_5_moe_vl";
    p.config["moe_intermediate_size"] = {64, 32};
    for (const int64_t rows : {64, 32}) {
      const std::string name = fmt::format(
          "model.layers.0.mlp.experts.{}.up_proj.weight", rows == 64 ? 0 : 1);
      p.tensors[name] = Bf16(name, {rows, 64});
    }
  };
  EXPECT_THAT(Lints({"", Base::kCompressedTensors, kinds, ""}),
              testing::Not(HasSubstr("wrong-shape")));
}

TEST_F(LintRulesTest, EveryRuleFindsItsFaults) {
  std::set<std::string_view> seen;
  for (const auto& faults :
       {ScaleFaults(), LayoutFaults(), WeightFaults(), ConfigFaults(),
        EngineFaults(), FileFaults(), CompanionFaults(), OriginalFaults()}) {
    for (const Fault& c : faults) {
      SCOPED_TRACE(fmt::format("{}: {}", c.rule, c.says));
      const std::string found = Lints(c);
      EXPECT_THAT(found, HasSubstr(std::string(c.rule) + " "));
      EXPECT_THAT(found, HasSubstr(c.says));
      seen.insert(c.rule);
    }
  }
  std::set<std::string_view> rules;
  for (const LintRule& rule : LintRules()) {
    EXPECT_TRUE(rules.insert(rule.id).second) << rule.id << " is listed twice";
    EXPECT_EQ(seen.count(rule.id), 1u) << rule.id << " has no planted fault";
    EXPECT_THAT(std::string(rule.thread), HasSubstr("#"));
  }
  for (const std::string_view rule : seen) {
    EXPECT_EQ(rules.count(rule), 1u) << rule << " is not a rule of lint";
  }
}

// A sentence encoder may be a decoder without its head, and without "model." in
// its names.
TEST_F(LintRulesTest, NamesOfADecoderWithoutItsHeadAreClean) {
  const auto bare = [](Planted& p) {
    p.tensors.erase("lm_head.weight");
    const auto tensors = p.tensors;
    for (const auto& [name, t] : tensors) {
      Rename(&p, name, name.substr(std::string_view("model.").size()));
    }
    p.config["tie_word_embeddings"] = true;
  };
  EXPECT_EQ(Lints({"", Base::kCompressedTensors, bare, ""}), "");
  const auto half = [&](Planted& p) {
    bare(p);
    Rename(&p, "norm.weight", "model.norm.weight");
  };
  EXPECT_THAT(Lints({"", Base::kCompressedTensors, half, ""}),
              HasSubstr("wrapped-names"));
}

// vLLM and SGLang also read hf_quant_config.json alone. If it lists the
// quantized layers, it needs no list of the others.
TEST_F(LintRulesTest, ModelOptsOwnFileSuffices) {
  const auto alone = [](Planted& p) { p.config.erase("quantization_config"); };
  EXPECT_EQ(Lints({"", Base::kModelOpt, alone, ""}), "");
  const auto unlisted = [&](Planted& p) {
    alone(p);
    p.own["quantization"]["exclude_modules"] = ModelJson::array();
  };
  EXPECT_THAT(Lints({"", Base::kModelOpt, unlisted, ""}),
              HasSubstr("ignore-list lm_head"));
  const auto mixed = [&](Planted& p) {
    alone(p);
    ModelJson& own = p.own["quantization"];
    own.erase("exclude_modules");
    own.erase("group_size");
    own["quant_algo"] = "MIXED_PRECISION";
    for (const char* leaf : {"q_proj", "k_proj", "v_proj"}) {
      own["quantized_layers"][std::string(kAttention) + leaf] = {
          {"quant_algo", "W4A16_NVFP4"}, {"group_size", 16}};
    }
  };
  EXPECT_EQ(Lints({"", Base::kModelOpt, mixed, ""}), "");
}

// vLLM builds a reward model's score with an empty name.
TEST_F(LintRulesTest, PlainLayersWithoutANameNeedTheEmptyName) {
  const auto reward = [](Planted& p) {
    p.config["architectures"] = {"Qwen2ForRewardModel"};
    p.tensors["score.0.weight"] = Bf16("score.0.weight", {64, 64});
    p.tensors["score.0.bias"] = Bf16("score.0.bias", {64});
    p.config["quantization_config"]["ignore"].push_back("re:.*score.*");
  };
  EXPECT_THAT(Lints({"", Base::kCompressedTensors, reward, ""}),
              AllOf(HasSubstr("vLLM builds it without a name"),
                    HasSubstr("matches (1)")));
  const auto named = [&](Planted& p) {
    reward(p);
    p.config["quantization_config"]["ignore"].push_back("re:^$");
  };
  EXPECT_EQ(Lints({"", Base::kCompressedTensors, named, ""}), "");
}

// Engines do not read "fmt", a scale may be a list of one number, fbgemm
// announces its upper bounds, and a reward model's gates have their own list of
// layers.
TEST_F(LintRulesTest, AcceptsWhatOtherLibrariesWrite) {
  EXPECT_EQ(Lints({"", Base::kDeepSeek,
                   Config([](ModelJson& q) { q.erase("fmt"); }), ""}),
            "");
  EXPECT_EQ(
      Lints({"", Base::kDeepSeek,
             Config([](ModelJson& q) { q["fmt"] = "float8_e4m3fn"; }), ""}),
      "");
  const auto list = [](Planted& p) { p.part(kQ + ".weight_scale").shape = {}; };
  EXPECT_THAT(Lints({"", Base::kFp8, list, ""}),
              testing::Not(HasSubstr("fused-in-part")));
  const auto bound = [](Planted& p) {
    p.config["quantization_config"] = {{"quant_method", "fbgemm_fp8"},
                                       {"activation_scale_ub", 1200.0},
                                       {"modules_to_not_convert", {"lm_head"}}};
    const std::string name = kQ + ".input_scale_ub";
    p.tensors[name] = {name, "F32", {1}, FloatBytes({1200})};
  };
  EXPECT_THAT(Lints({"", Base::kFp8, bound, ""}),
              testing::Not(HasSubstr("unknown-part")));
  const auto gates = [](Planted& p) {
    p.config["architectures"] = {"LlamaForRewardModelWithGating"};
    for (const char* name : {"gating.layers.0.weight", "gating.layers.1.weight",
                             "gating.layers.3.weight"}) {
      p.tensors[name] = Bf16(name, {64, 64});
    }
    p.config["quantization_config"]["ignore"].push_back("re:.*gating.*");
  };
  EXPECT_EQ(Lints({"", Base::kCompressedTensors, gates, ""}), "");
}

// EAGLE's draft model begins with `fc` in place of a norm.
TEST_F(LintRulesTest, DraftModelsLackTheFirstNorm) {
  const auto norms = [](Planted& p, bool draft) {
    for (const char* name :
         {"model.layers.0.post_attention_layernorm.weight", "fc.weight"}) {
      const bool fc = name[0] == 'f';
      if (fc && !draft) continue;
      p.tensors[name] = fc ? Bf16(name, {64, 128}) : Bf16(name, {64});
    }
    for (const char* leaf : {"gate_proj", "up_proj", "down_proj"}) {
      const std::string name =
          fmt::format("model.layers.0.mlp.{}.weight", leaf);
      p.tensors[name] = Bf16(name, {64, 64});
    }
    const std::string o = std::string(kAttention) + "o_proj.weight";
    p.tensors[o] = Bf16(o, {64, 32});
  };
  const char* norm = "missing-weight model.layers.0.input_layernorm";
  for (const bool draft : {false, true}) {
    const std::string found = Lints({"", Base::kCompressedTensors,
                                     [&](Planted& p) { norms(p, draft); }, ""});
    EXPECT_EQ(found.find(norm) == std::string::npos, draft) << found;
  }
}

// fbgemm's upper bound of a weight's inputs belongs to the quantization.
TEST_F(LintRulesTest, PartsOfTheOriginalsQuantizationAreNotMissing) {
  const Planted p = Clean(Nvfp4Names::kCompressedTensors);
  WritePlanted(At("q"), p);
  Planted source = p;
  std::erase_if(source.original, [](const WrittenTensor& t) {
    return t.name.ends_with("q_proj.weight");
  });
  const std::string module = std::string(kAttention) + "q_proj";
  source.original.push_back({module + ".weight",
                             "F8_E4M3",
                             {32, 64},
                             std::vector<std::byte>(32 * 64)});
  source.original.push_back({module + ".weight_scale",
                             "F32",
                             {32, 1},
                             FloatBytes(std::vector<float>(32, 1))});
  source.original.push_back(
      {module + ".input_scale_ub", "F32", {1}, FloatBytes({1200})});
  const Model original = WritePlantedOriginal(At("o"), source);
  ASSERT_OK_AND_ASSIGN(const auto linted,
                       Lint(*Model::Open(At("q")), &original));
  for (const Finding& f : linted.findings) {
    EXPECT_NE(f.rule, "no-counterpart") << f.where;
  }
}

}  // namespace
}  // namespace quantd::checkpoint
