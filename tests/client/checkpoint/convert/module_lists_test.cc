// Tests of the module lists in a converted model's configuration, as
// compressed-tensors, vLLM, SGLang and transformers interpret them.

#include "client/checkpoint/convert/config_writer.h"
#include "client/checkpoint/plan.h"
#include "tests/client/checkpoint/convert/families.h"
#include "tests/client/checkpoint/model_fixture.h"

namespace quantd::checkpoint {
namespace {

using testing::ElementsAre;

class ModuleLists : public ModelFixture {
 protected:
  // Returns the quantization_config that results from `selection`.
  ModelJson Convert(const Family& f, const Selection& selection) {
    const std::string path = dir_ / f.name;
    std::filesystem::remove_all(path);
    WriteModel(path, f.config, {f.tensors});
    const auto model = Model::Open(path);
    EXPECT_THAT(model, IsOk());
    if (!model.ok()) return {};
    const auto plan = MakeConversionPlan(*model, selection);
    EXPECT_THAT(plan, IsOk()) << f.name;
    if (!plan.ok()) return {};
    const auto files = ConfigFiles(*model, *plan);
    return ModelJson::parse(files.back().text)["quantization_config"];
  }

  template <size_t n>
  void Check(const Reader (&readers)[n], const Selection& selection,
             const char* key) {
    for (const Family& f : Families()) {
      const ModelJson config = Convert(f, selection);
      const Names list = config.at(key).get<Names>();
      for (const Reader& reader : readers) {
        Names plain = f.plain;
        // Lists without expressions need only the names of the file.
        if (key == std::string("ignore")) {
          plain.insert(plain.end(), f.mapped.begin(), f.mapped.end());
        }
        for (const std::string& module : plain) {
          EXPECT_TRUE(reader.plain(list, module))
              << f.name << ", " << reader.name << ": " << module << " in "
              << config.at(key);
        }
        for (const std::string& module : f.quantized) {
          EXPECT_FALSE(reader.plain(list, module))
              << f.name << ", " << reader.name << ": " << module << " in "
              << config.at(key);
        }
      }
    }
  }
};

TEST_F(ModuleLists, CompressedTensorsIgnoreMatchesEnginesNames) {
  Check(kCompressedTensors, {}, "ignore");
}
TEST_F(ModuleLists, ModelOptIgnoreMatchesEnginesNames) {
  Check(kModelOpt, {Dialect::kModelOpt, WeightFormat::kNvfp4}, "ignore");
}
TEST_F(ModuleLists, DeepSeekListMatchesEnginesNames) {
  Check(kDeepSeek, {Dialect::kDeepSeek, WeightFormat::kFp8Block},
        "modules_to_not_convert");
}

// Returns the config group that an engine uses for a module, or "" without one.
std::string GroupOf(const ModelJson& config, const std::string& module,
                    const Names& parts, bool class_first) {
  const auto matched = [&](auto&& matches) {
    for (const auto& [name, group] : config.at("config_groups").items()) {
      if (matches(group.at("targets").template get<Names>())) return name;
    }
    return std::string();
  };
  const std::string own =
      matched([&](const Names& list) { return AnyMatches(list, module); });
  const std::string linear = matched([](const Names& list) {
    return std::find(list.begin(), list.end(), "Linear") != list.end();
  });
  if (!own.empty() || (class_first && !linear.empty())) {
    return own.empty() ? linear : own;
  }
  const std::string fused = matched([&](const Names& list) {
    return !parts.empty() &&
           std::all_of(parts.begin(), parts.end(),
                       [&](auto& n) { return AnyMatches(list, n); });
  });
  return fused.empty() ? linear : fused;
}

TEST_F(ModuleLists, TargetsOfTwoFormatsMatchEnginesNames) {
  const struct {
    const char* rule;
    bool (*is)(const std::string& module);
  } cases[] = {
      {"re:.*self_attn.*",
       [](auto& m) { return m.find("self_attn") != std::string::npos; }},
      {"re:.*layers\\.0\\..*",
       [](auto& m) { return m.find("layers.0.") != std::string::npos; }},
      {"re:.*\\.experts\\..*", [](auto& m) { return IsExperts(m); }},
      {"re:.*layers\\.1\\.(mlp|block_sparse_moe)\\.experts\\..*",
       [](auto& m) {
         return IsExperts(m) && m.find("layers.1.") != std::string::npos;
       }},
      {"re:.*(gate_proj|up_proj|down_proj|w[123])",
       [](auto& m) { return m.find("self_attn") == std::string::npos; }}};
  size_t mixed = 0;
  for (const Family& f : Families()) {
    for (const auto& c : cases) {
      // A rule that names nothing is an error.
      if (std::none_of(f.quantized.begin(), f.quantized.end(), c.is)) continue;
      Selection selection;
      selection.rules = {std::string(c.rule) + "=fp8_dynamic"};
      const ModelJson config = Convert(f, selection);
      mixed += config.at("config_groups").size() > 1 ? 1 : 0;
      for (const std::string& m : f.quantized) {
        const std::string_view right = c.is(m) ? "FP8_DYNAMIC" : "NVFP4A16";
        const bool experts = IsExperts(m);
        const Names vllm = experts ? VllmExperts(m) : Names{m};
        for (const std::string& n : vllm) {
          EXPECT_EQ(GroupOf(config, n, ShardsOf(n), false), right)
              << f.name << ", vLLM, " << c.rule << ": " << n << " in "
              << config.at("config_groups");
        }
        for (const std::string& n : experts ? SglangExperts(m) : Names{m}) {
          EXPECT_EQ(GroupOf(config, n, ShardsOf(n), true), right)
              << f.name << ", SGLang, " << c.rule << ": " << n << " in "
              << config.at("config_groups");
        }
      }
    }
  }
  EXPECT_GE(mixed, 20u);
}

// A few expressions stand for the names of a hundred layers, and none of them
// matches a quantized module.
TEST(ModuleExpressions, AreFewAndMatchOnlyTheListedModules) {
  const auto texts = [](Names names, Names others) {
    return ModuleExpressions(std::move(names), std::move(others),
                             NameStyle::kRegular);
  };
  Names gates, quantized;
  for (int i = 0; i < 100; ++i) {
    const std::string layer = fmt::format("model.layers.{}.mlp.", i);
    gates.push_back(layer + "gate");
    quantized.push_back(layer + "gate_proj");
    quantized.push_back(layer + "experts.7.up_proj");
  }
  EXPECT_THAT(texts(gates, quantized), ElementsAre("re:.*\\.gate$"));
  // Two layers are listed by their numbers.
  const Names some = {"model.layers.3.mlp.gate_proj",
                      "model.layers.30.mlp.gate_proj",
                      "model.layers.3.mlp.experts.7.up_proj",
                      "model.layers.30.mlp.experts.7.up_proj"};
  Names rest;
  for (const std::string& name : quantized) {
    if (std::find(some.begin(), some.end(), name) == some.end()) {
      rest.push_back(name);
    }
  }
  EXPECT_THAT(texts(some, rest), ElementsAre("re:.*layers\\.(3|30)\\..*"));
  rest.emplace_back("model.layers.3.self_attn.o_proj");
  rest.emplace_back("model.layers.30.self_attn.o_proj");
  EXPECT_THAT(texts(some, rest),
              ElementsAre("re:.*layers\\.(3|30)\\.mlp\\.gate_proj$",
                          "re:.*layers\\.(3|30)\\.mlp\\.experts\\..*"));
  // A tower's layers are told from the text model's layers of the same names. A
  // module that no expression distinguishes is listed by its exact name.
  EXPECT_THAT(texts({"vision.encoder.layers.0.mlp.fc1"},
                    {"encoder.layers.0.mlp.fc1", "model.layers.0.mlp.fc1"}),
              ElementsAre("re:.*vision\\..*"));
  EXPECT_THAT(texts({"vision.layers.0.fc1"},
                    {"vision.layers.1.fc1", "model.layers.0.fc1"}),
              ElementsAre("re:.*vision\\.layers\\.0\\.fc1$"));
  EXPECT_THAT(texts({"model.fc"}, {"x.model.fc"}), ElementsAre("model.fc"));
  EXPECT_THAT(texts({"dense"}, {"m.dense", "m.o_proj"}), ElementsAre("dense"));
  // Engines' names are added for the parts of a fused layer.
  EXPECT_THAT(texts({"m.layers.0.a.q_proj", "m.layers.0.a.k_proj",
                     "m.layers.0.a.v_proj"},
                    {"m.layers.0.a.o_proj"}),
              ElementsAre("re:.*\\.(q_proj|k_proj|v_proj|qkv_proj)$"));
  EXPECT_THAT(
      ModuleExpressions({"m.layers.1.a", "tower.x", "tower.y"},
                        {"m.layers.10.a", "towers.x"}, NameStyle::kGlobs),
      ElementsAre("*layers.1.*", "*tower", "*tower.*"));
}

// The target "Linear" does not cover vLLM's output head, and vLLM creates a
// head even if no file has one.
TEST_F(ModuleLists, NamesTheHeadAsTargetOrAsIgnored) {
  Family f = Families().front();
  const auto q = Convert(f, {});
  EXPECT_EQ(q["ignore"], ModelJson({"re:.*lm_head$"}));
  Selection taken;
  taken.include = {"lm_head"};
  const auto head = Convert(f, taken);
  EXPECT_EQ(head["ignore"], ModelJson::array());
  EXPECT_EQ(head["config_groups"]["NVFP4A16"]["targets"],
            ModelJson({"Linear", "re:.*lm_head$"}));
  std::erase_if(f.tensors, [](auto& t) { return t.name == "lm_head.weight"; });
  for (const ModelJson& tied : {ModelJson(), ModelJson(false)}) {
    if (tied.is_null()) {
      f.config.erase("tie_word_embeddings");
    } else {
      f.config["tie_word_embeddings"] = tied;
    }
    EXPECT_EQ(Convert(f, {})["ignore"], ModelJson({"re:.*lm_head$"}));
    EXPECT_EQ(Convert(f, {Dialect::kDeepSeek,
                          WeightFormat::kFp8Block})["modules_to_not_convert"],
              ModelJson({"lm_head"}));
  }
  f.config["model_type"] = "whisper";
  EXPECT_EQ(Convert(f, {})["ignore"], ModelJson({"re:.*proj_out$"}));
  f.config["model_type"] = "xlm";
  EXPECT_EQ(Convert(f, {})["ignore"], ModelJson({"re:.*pred_layer\\..*"}));
  f.config["architectures"] = {"LlamaForCausalLM"};
  for (const auto& [type, head] :
       {std::pair{"bert-generation", "lm_head.decoder"},
        {"bert", "cls.predictions.decoder"},
        {"canary", "proj_out"},
        {"gpt_neox_japanese", "embed_out"},
        {"modernbert-decoder", "decoder"},
        {"llama", "lm_head"}}) {
    f.config["model_type"] = type;
    const Names list = Convert(f, {})["ignore"].get<Names>();
    EXPECT_TRUE(AnyMatches(list, head)) << type;
    EXPECT_FALSE(AnyMatches(list, "model.layers.0.self_attn.q_proj")) << type;
  }
}

// A block of 128 x 128 may span two parts of a fused module, which engines
// refuse.
TEST_F(ModuleLists, LeavesOutFusedModulesWhosePartsShareFp8Blocks) {
  const std::string l = "model.layers.0.", a = l + "self_attn.";
  const std::string m = l + "mlp.", e = m + "experts.",
                    s = m + "shared_experts.";
  const std::vector<int64_t> even = {128, 256}, rows = {64, 256},
                             cols = {256, 192}, last = {576, 256};
  std::vector<WrittenTensor> all;
  for (const auto& [name, shape] : std::map<std::string, std::vector<int64_t>>{
           {a + "q_proj", even},
           {a + "k_proj", rows},
           {a + "v_proj", rows},
           {a + "o_proj", rows},
           {a + "q_a_proj", even},
           {a + "kv_a_proj_with_mqa", last},
           {s + "gate_up_proj", {384, 256}},
           {s + "down_proj", cols},
           {e + "0.gate_proj", {192, 256}},
           {e + "0.up_proj", {192, 256}},
           {e + "0.down_proj", even},
           {e + "1.gate_proj", even},
           {e + "1.up_proj", even},
           {e + "1.down_proj", even},
           {m + "gate_proj", even},
           {m + "up_proj", even}}) {
    all.push_back(Bf16(name + ".weight", shape));
  }
  WriteModel(dir_ / "m", LlamaConfig(), {all});
  ASSERT_OK_AND_ASSIGN(const auto model, Model::Open(dir_ / "m"));
  for (const Dialect d : {Dialect::kDeepSeek, Dialect::kCompressedTensors}) {
    ASSERT_OK_AND_ASSIGN(
        const auto plan,
        MakeConversionPlan(model,
                           {.dialect = d, .format = WeightFormat::kFp8Block}));
    EXPECT_THAT(ModulesOf(plan).at({WeightFormat::kFp8Block}),
                testing::UnorderedElementsAre(a + "o_proj", a + "q_a_proj",
                                              a + "kv_a_proj_with_mqa",
                                              m + "gate_proj", m + "up_proj"));
    EXPECT_EQ(plan.copies.size(), 11u);
    EXPECT_EQ(plan.left_out.size(), 11u);
    for (const LeftOut& left : plan.left_out) {
      EXPECT_THAT(left.reason, testing::HasSubstr("are multiples of 128"));
    }
    EXPECT_THAT(IgnoredNames(model, plan, false),
                testing::IsSupersetOf({a + "q_proj", a + "k_proj", a + "v_proj",
                                       s + "down_proj", m + "experts"}));
  }
}

// The parts of one stored weight are parts of a fused module, too.
TEST_F(ModuleLists, LeavesOutStoredFusionsWhosePartsShareFp8Blocks) {
  const std::string h = "transformer.h.0.attn.", m = "model.layers.0.mixer.";
  struct Case {
    std::string module;
    int64_t rows = 0;
    ModelJson config;
    std::vector<WrittenTensor> more = {};
  };
  const ModelJson one = {{"n_head", 4}, {"n_embd", 256}, {"multi_query", true}};
  const ModelJson wide = {
      {"n_head", 2}, {"n_embd", 256}, {"multi_query", true}};
  // Mamba-2 with 8 heads, and 2 x 16 or 2 x 128 rows for B and C.
  const auto mamba = [&](int64_t mixed) {
    return std::vector<WrittenTensor>{Bf16(m + "conv1d.weight", {mixed, 1, 4}),
                                      Bf16(m + "A_log", {8})};
  };
  for (const bool right : {false, true}) {
    for (const Case& c :
         {Case{h + "c_attn", right ? 512 : 384, right ? wide : one},
          Case{"transformer.h.0.self_attention.query_key_value",
               right ? 512 : 384, right ? wide : one},
          Case{m + "in_proj", right ? 776 : 552, ModelJson::object(),
               mamba(right ? 512 : 288)}}) {
      SCOPED_TRACE(c.module);
      ModelJson config = LlamaConfig();
      for (const char* key : {"num_attention_heads", "num_key_value_heads",
                              "head_dim", "hidden_size"}) {
        config.erase(key);
      }
      config.update(c.config);
      std::vector<WrittenTensor> all = c.more;
      all.push_back(Bf16(c.module + ".weight", {c.rows, 256}));
      std::filesystem::remove_all(dir_ / "m");
      WriteModel(dir_ / "m", config, {all});
      ASSERT_OK_AND_ASSIGN(const auto model, Model::Open(dir_ / "m"));
      const auto plan = MakeConversionPlan(
          model, {.format = WeightFormat::kFp8Block, .include = {c.module}});
      // A plan without any quantized weight is refused.
      EXPECT_EQ(plan.ok() && !plan->groups.empty(), right) << plan.status();
    }
  }
}

// transformers splits these weights while it loads them, but not their scales.
TEST_F(ModuleLists, LeavesOutFusionsThatTransformersSplits) {
  Family f = {"split", LlamaConfig(), {}, {}, {}};
  f.config["model_type"] = "hrm_text";
  const std::string l = "model.layers.0.";
  for (const char* name :
       {"attn.gqkv_proj", "mlp.gate_up_proj", "attn.o_proj"}) {
    f.tensors.push_back(Bf16(l + name + ".weight", {128, 128}));
  }
  const Names list = Convert(f, {})["ignore"].get<Names>();
  for (const char* name :
       {"attn.gqkv_proj", "mlp.gate_up_proj", "self_attn.q_proj",
        "self_attn.gate_proj", "mlp.gate_proj", "mlp.up_proj"}) {
    EXPECT_TRUE(AnyMatches(list, l + name)) << name;
  }
  EXPECT_FALSE(AnyMatches(list, l + "attn.o_proj"));
  const auto rows = Convert(f, {.format = WeightFormat::kFp8Dynamic});
  EXPECT_FALSE(AnyMatches(rows["ignore"].get<Names>(), l + "mlp.gate_up_proj"));
  const auto part = Convert(
      f, {.format = WeightFormat::kFp8Dynamic, .ignore = {"*gqkv_proj"}});
  const Names plain = part["ignore"].get<Names>();
  EXPECT_TRUE(AnyMatches(plain, l + "self_attn.gate_proj"));
  EXPECT_FALSE(AnyMatches(plain, l + "mlp.gate_proj"));
}

TEST(FusedNamesOf, NeedsTheFirstMember) {
  const auto names =
      FusedNamesOf("l.0.self_attn.q_proj", [](const std::string& sibling) {
        return sibling == "l.0.self_attn.q_proj";
      });
  EXPECT_THAT(names, ElementsAre("l.0.self_attn.qkv_proj"));
}

TEST_F(ModuleLists, Fp8ExpertsNeedInputScales) {
  const std::string expert = "model.layers.0.mlp.experts.1.up_proj";
  WriteModel(dir_ / "m", LlamaConfig(),
             {{Bf16(expert + ".weight", {128, 128})}});
  ASSERT_OK_AND_ASSIGN(const auto model, Model::Open(dir_ / "m"));
  Selection s = {.format = WeightFormat::kFp8};
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(MakeConversionPlan(model, s),
                Refused(testing::HasSubstr("--format fp8_dynamic")));
    s = {.rules = {"*.up_proj=fp8"}};
  }
  s.input_amax[expert] = 3;
  EXPECT_THAT(MakeConversionPlan(model, s), IsOk());
  // Engines use one scheme for all experts of a layer.
  const std::string other = "model.layers.0.mlp.experts.0.up_proj";
  WriteModel(dir_ / "two", LlamaConfig(),
             {{Bf16(expert + ".weight", {128, 128}),
               Bf16(other + ".weight", {128, 128})}});
  ASSERT_OK_AND_ASSIGN(const auto two, Model::Open(dir_ / "two"));
  s = {.input_amax = {{expert, 3.0f}}};
  EXPECT_THAT(MakeConversionPlan(two, s),
              Refused(testing::HasSubstr("the file has " + expert +
                                         " but not " + other)));
  EXPECT_THAT(MakeConversionPlan(model, {.format = WeightFormat::kFp8Dynamic}),
              IsOk());
}

}  // namespace
}  // namespace quantd::checkpoint
