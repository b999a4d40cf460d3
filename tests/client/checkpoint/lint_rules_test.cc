// Every rule of lint finds the faults that are planted for it, and nothing in
// what they were planted in.
#include <cmath>
#include <functional>
#include <set>

#include "client/checkpoint/check/lint.h"
#include "tests/client/checkpoint/planted.h"

namespace quantd::checkpoint {
namespace {

using testing::HasSubstr;

const std::string kQ = std::string(kAttention) + "q_proj";
const std::string kK = std::string(kAttention) + "k_proj";
const std::string kV = std::string(kAttention) + "v_proj";
constexpr char kExperts[] = "model.layers.0.mlp.experts";

// What faults are planted in.
enum class Base {
  kCompressedTensors,
  kModelOpt,
  kFp8,       // compressed-tensors with one scale a weight
  kDeepSeek,  // 128 x 128 blocks
  kComfy,
};

std::vector<std::byte> Fp8Codes(const std::string& name, size_t count) {
  std::mt19937 random(static_cast<uint32_t>(std::hash<std::string>()(name)));
  std::vector<std::byte> codes(count);
  for (std::byte& b : codes) {
    const auto code = static_cast<uint8_t>(random());
    b = static_cast<std::byte>((code & 0x7F) == 0x7F ? code & 0x80 : code);
  }
  return codes;
}

Planted CleanFp8(bool blocks) {
  Planted p = Clean(Nvfp4Names::kCompressedTensors);
  p.original.clear();
  for (const std::string& module : {kQ, kK, kV}) {
    for (const char* end : {"_packed", "_scale", "_global_scale"}) {
      p.tensors.erase(module + ".weight" + end);
    }
    const std::string codes = module + ".weight";
    const std::string scale = codes + (blocks ? "_scale_inv" : "_scale");
    p.tensors[codes] = {codes, "F8_E4M3", {32, 64}, Fp8Codes(codes, 32 * 64)};
    p.tensors[scale] = {
        scale, "F32",
        blocks ? std::vector<int64_t>{1, 1} : std::vector<int64_t>{1},
        FloatBytes({0.5f / 448})};
  }
  ModelJson& q = p.config["quantization_config"];
  if (blocks) {
    q = {{"quant_method", "fp8"},
         {"fmt", "e4m3"},
         {"activation_scheme", "dynamic"},
         {"weight_block_size", {128, 128}},
         {"modules_to_not_convert", {"lm_head"}}};
    return p;
  }
  q["format"] = "float-quantized";
  ModelJson& group = q["config_groups"]["group_0"];
  group["format"] = "float-quantized";
  group["weights"] = {{"num_bits", 8},     {"type", "float"},
                      {"symmetric", true}, {"strategy", "tensor"},
                      {"dynamic", false},  {"group_size", nullptr}};
  return p;
}

Planted CleanComfy() {
  Planted p = Clean(Nvfp4Names::kModelOpt);
  p.names = Nvfp4Names::kCompressedTensors;  // no file of ModelOpt's
  p.config.erase("quantization_config");
  for (const std::string& module : {kQ, kK, kV}) {
    Pad(&p.part(module + ".weight_scale"), true);
    const std::string label = R"({"format": "nvfp4"})";
    const std::string name = module + ".comfy_quant";
    std::vector<std::byte> bytes(label.size());
    std::memcpy(bytes.data(), label.data(), label.size());
    p.tensors[name] = {name, "U8", {static_cast<int64_t>(label.size())}, bytes};
  }
  return p;
}

Planted CleanOf(Base base) {
  switch (base) {
    case Base::kCompressedTensors:
      return Clean(Nvfp4Names::kCompressedTensors);
    case Base::kModelOpt:
      return Clean(Nvfp4Names::kModelOpt);
    case Base::kFp8:
    case Base::kDeepSeek:
      return CleanFp8(base == Base::kDeepSeek);
    case Base::kComfy:
      return CleanComfy();
  }
  return {};
}

void Label(Planted* p, const std::string& text) {
  WrittenTensor& t = p->part(kQ + ".comfy_quant");
  t.shape = {static_cast<int64_t>(text.size())};
  t.bytes.resize(text.size());
  std::memcpy(t.bytes.data(), text.data(), text.size());
}

using Plant = std::function<void(Planted&)>;

Plant Set(const std::string& name, float value) {
  return [=](Planted& p) { p.part(name).bytes = FloatBytes({value}); };
}
Plant SetAll(const std::string& end, float value) {
  return [=](Planted& p) {
    for (const std::string& module : {kQ, kK, kV}) {
      p.part(module + end).bytes = FloatBytes({value});
    }
  };
}
Plant Fill(const std::string& name, uint8_t byte, size_t from = 0) {
  return [=](Planted& p) {
    auto& bytes = p.part(name).bytes;
    std::fill(bytes.begin() + static_cast<ptrdiff_t>(from), bytes.end(),
              std::byte{byte});
  };
}
Plant Put(const std::string& name, std::vector<int64_t> shape) {
  return [=](Planted& p) { p.tensors[name] = Bf16(name, shape); };
}
Plant Erase(const std::string& name) {
  return [=](Planted& p) { p.tensors.erase(name); };
}
// With the scale of inputs that stands for `amax`, one for each.
Plant Inputs(std::vector<float> scales) {
  return [=](Planted& p) {
    p.own["quantization"]["quant_algo"] = "NVFP4";
    size_t i = 0;
    for (const std::string& module : {kQ, kK, kV}) {
      if (i == scales.size()) break;
      const std::string name = module + ".input_scale";
      p.tensors[name] = {name, "F32", {}, FloatBytes({scales[i++]})};
    }
  };
}
Plant Cache(const std::vector<std::pair<const char*, float>>& scales) {
  return [=](Planted& p) {
    p.config["quantization_config"]["kv_cache_scheme"] = {
        {"num_bits", 8}, {"type", "float"}, {"dynamic", false}};
    for (const auto& [leaf, value] : scales) {
      const std::string name = std::string(kAttention) + leaf;
      p.tensors[name] = {name, "F32", {1}, FloatBytes({value})};
    }
  };
}
using Edit = std::function<void(ModelJson&)>;
// Of the quantization_config.
Plant Config(Edit edit) {
  return [=](Planted& p) { edit(p.config["quantization_config"]); };
}
Plant Group(Edit edit) {
  return Config([=](ModelJson& q) { edit(q["config_groups"]["group_0"]); });
}
Plant Own(Edit edit) {
  return [=](Planted& p) { edit(p.own["quantization"]); };
}
Plant Model_(Edit edit) {
  return [=](Planted& p) { edit(p.config); };
}
Plant Plain(const std::string& module) {
  return [=](Planted& p) {
    for (const char* end : {"_packed", "_scale", "_global_scale"}) {
      p.tensors.erase(module + ".weight" + end);
    }
    p.tensors[module + ".weight"] = Bf16(module + ".weight", {32, 64});
  };
}
Plant Expert(int expert, std::vector<int64_t> shape) {
  return [=](Planted& p) {
    for (int e = 0; e < 2; ++e) {
      const std::string name =
          fmt::format("{}.{}.down_proj.weight", kExperts, e);
      if (e == expert && shape.empty()) continue;
      p.tensors[name] =
          Bf16(name, e == expert ? shape : std::vector<int64_t>{64, 32});
    }
    p.config["quantization_config"]["ignore"].push_back("re:.*experts.*");
    p.config["intermediate_size"] = 32;
    p.config["num_local_experts"] = 2;
  };
}

struct Case {
  const char* rule;
  Base base;
  Plant plant;
  const char* says;
  bool with_original = false;
  // What is done to the files, behind the back of the writer.
  std::function<void(const std::string& directory)> spoil = {};
};

std::vector<Case> ScaleCases() {
  const Base ct = Base::kCompressedTensors;
  const Base mo = Base::kModelOpt;
  return {
      {"fused-scales", ct, Set(kK + ".weight_global_scale", 5000), "5000"},
      {"fused-scales", mo, Set(kK + ".weight_scale_2", 1e-4f), "k_proj has"},
      {"fused-in-part", ct, Plain(kK), "k_proj is not"},
      {"bad-scale", ct, Set(kQ + ".weight_global_scale", 0), "holds 0"},
      {"bad-scale", mo, Set(kQ + ".weight_scale_2", NAN), "holds NaN"},
      {"bad-scale", mo,
       [](Planted& p) {
         p.part(kQ + ".weight_scale").bytes[7] = std::byte{0xFF};
       },
       "holds NaN"},
      {"bad-scale", mo, Fill(kQ + ".weight_scale", 0), "nothing but zeros"},
      {"divisor", ct, Set(kQ + ".weight_global_scale", 0.5f / 2688), "divisor"},
      {"divisor", mo, Set(kQ + ".weight_scale_2", 2688 / 0.5f), "multiplier"},
      {"implausible-scale", Base::kFp8, Set(kQ + ".weight_scale", 448 / 0.5f),
       "as large as 4.01e+05"},
      {"implausible-scale", Base::kDeepSeek,
       Set(kQ + ".weight_scale_inv", 1e30f), "holds 1e+30"},
      {"implausible-scale", Base::kFp8, Set(kQ + ".weight_scale", 1e-20f),
       "as large as"},
      {"placeholder-scale", Base::kFp8, SetAll(".weight_scale", 1),
       "the scales of all 3 weights are 1"},
      {"placeholder-scale", ct, Fill(kQ + ".weight_scale", 0x38), "are 1"},
      {"unused-range", ct,
       [](Planted& p) {
         for (const std::string& module : {kQ, kK, kV}) {
           for (std::byte& b : p.part(module + ".weight_scale").bytes) {
             b = static_cast<std::byte>(static_cast<int>(b) - 0x3F);
           }
         }
       },
       "its largest block scale is"},
      {"unused-range", Base::kFp8,
       [](Planted& p) {
         for (std::byte& b : p.part(kQ + ".weight").bytes) b &= std::byte{0x9F};
       },
       "its largest code is"},
      {"no-input-scale", mo,
       Own([](ModelJson& q) { q["quant_algo"] = "NVFP4"; }), "labelled NVFP4"},
      {"no-input-scale", ct, Group([](ModelJson& g) {
         g["input_activations"] = {{"dynamic", "local"}};
       }),
       "labelled group_0"},
      {"no-input-scale", mo, Inputs({0.001f, 0.001f}), "as others have"},
      {"no-input-scale", Base::kDeepSeek,
       Config([](ModelJson& q) { q["activation_scheme"] = "static"; }),
       "labelled static"},
      {"input-scale", mo, Inputs({1, 1, 1}), "are 1, as if nothing"},
      {"input-scale", mo, Inputs({2, 2, 2}), "may be the reciprocals"},
      {"input-scale", mo, Inputs({700, 700, 700}), "inputs as large as"},
      {"input-scale", mo, Inputs({1e-12f, 1e-12f, 1e-12f}), "2.69e-09"},
      {"fused-input-scales", mo, Inputs({0.001f, 0.004f, 0.001f}),
       "for the same inputs"},
      {"cache-scale", ct, Cache({}), "no scales of the cache"},
      {"cache-scale", ct, Cache({{"k_scale", 0.1f}}), "no scale of values"},
      {"cache-scale", ct, Cache({{"k_scale", 0}, {"v_scale", 0.1f}}),
       "it holds 0"},
      {"cache-scale", ct, Cache({{"k_scale", NAN}, {"v_scale", 0.1f}}),
       "it holds NaN"},
      {"cache-scale", ct, Cache({{"k_scale", 15000}, {"v_scale", 0.1f}}),
       "which no keys or values have"},
  };
}

std::vector<Case> LayoutCases() {
  const Base ct = Base::kCompressedTensors;
  const Base mo = Base::kModelOpt;
  return {
      {"padded-scales", ct,
       [](Planted& p) { Pad(&p.part(kQ + ".weight_scale"), false); },
       "scales are padded"},
      {"swizzled-scales", mo,
       [](Planted& p) { Pad(&p.part(kQ + ".weight_scale"), true); },
       "scales are swizzled"},
      {"dialect", mo,
       [](Planted& p) {
         Rename(&p, kQ + ".weight", kQ + ".weight_packed");
         Rename(&p, kQ + ".weight_scale_2", kQ + ".weight_global_scale");
         p.part(kQ + ".weight_global_scale").shape = {1};
       },
       "named as compressed-tensors does"},
      {"dialect", ct,
       Config([](ModelJson& q) { q["quant_method"] = "compressed_tensors"; }),
       "quant_method \"compressed_tensors\""},
      {"missing-scale", ct, Erase(kQ + ".weight_scale"), "scales are missing"},
      {"missing-scale", mo, Erase(kQ + ".weight_scale_2"),
       "global scale is missing"},
      {"unclear-layout", ct,
       [](Planted& p) {
         Rename(&p, kQ + ".weight_scale", kQ + ".weight_scale_inv");
       },
       "weight_scale_inv would be"},
      {"unclear-layout", mo,
       [](Planted& p) { p.part(kQ + ".weight_scale").dtype = "U8"; },
       "fit no dialect"},
      {"unknown-part", mo, Put(kQ + ".pre_quant_scale", {64}),
       "pre_quant_scale is beside its codes"},
      {"unknown-part", ct, Put(kQ + ".weight_zero_point", {32, 4}),
       "weight_zero_point"},
      {"unknown-part", ct, Put(kQ + ".weight_g_idx", {64}), "weight_g_idx"},
      {"label", Base::kComfy, Erase(kQ + ".comfy_quant"), "no comfy_quant"},
      {"label", Base::kComfy, [](Planted& p) { Label(&p, "{\"format\": "); },
       "is no JSON"},
      {"label", Base::kComfy, [](Planted& p) { Label(&p, "[1]"); },
       "no JSON object"},
      {"label", Base::kComfy,
       [](Planted& p) { Label(&p, R"({"format": "float8_e4m3fn"})"); },
       "says float8_e4m3fn, and it is nvfp4"},
      {"stacked-experts", ct,
       Put("model.layers.0.mlp.experts.gate_up_proj", {4, 32, 128}),
       "4 experts are BF16"},
  };
}

std::vector<Case> WeightCases() {
  const Base ct = Base::kCompressedTensors;
  return {
      {"not-a-number", Base::kFp8,
       [](Planted& p) { p.part(kQ + ".weight").bytes[99] = std::byte{0xFF}; },
       "1 of 2048 codes are NaN"},
      {"not-a-number", ct,
       [](Planted& p) {
         auto& bytes = p.part("model.norm.weight").bytes;
         bytes[20] = std::byte{0x80};
         bytes[21] = std::byte{0x7F};
       },
       "1 of 64 numbers are NaN or infinite"},
      {"dead-weight", ct, Fill(kQ + ".weight_packed", 0), "nothing but zeros"},
      {"dead-weight", ct, Fill(kQ + ".weight_packed", 0, 512),
       "16 of 32 rows are nothing but zeros"},
      {"dead-weight", ct, Fill("model.embed_tokens.weight", 0),
       "nothing but zeros"},
      {"clipped", ct, Fill(kQ + ".weight_packed", 0xF7, 256),
       "are the largest that there is"},
      {"clipped", Base::kFp8, Fill(kQ + ".weight", 0xFE, 1900),
       "are the largest that there is"},
      {"missing-weight", ct, Erase("model.norm.weight"), "every model"},
      {"missing-weight", ct, Erase("lm_head.weight"), "not tied"},
      {"missing-weight", ct,
       Model_([](ModelJson& c) { c["num_hidden_layers"] = 2; }),
       "nothing of this layer"},
      {"missing-weight", ct,
       [](Planted& p) {
         p.config["num_hidden_layers"] = 2;
         for (const char* leaf : {"k_norm", "q_norm"}) {
           const std::string name =
               fmt::format("model.layers.1.self_attn.{}.weight", leaf);
           p.tensors[name] = Bf16(name, {32});
         }
       },
       "every other layer has it"},
      {"missing-weight", ct,
       Model_([](ModelJson& c) { c["attention_bias"] = true; }),
       "config.json says attention_bias"},
      {"missing-weight", ct, Expert(0, {}), "1 experts, numbered up to 1"},
      {"wrong-shape", ct, Expert(1, {64, 16}), "[64, 16]"},
      {"wrong-shape", ct,
       Model_([](ModelJson& c) { c["num_key_value_heads"] = 2; }),
       "[32, 64], and it would be [64, 64] by config.json"},
      {"wrong-shape", ct, Put(kQ + ".bias", {16}), "by its weight"},
      {"tied-head", ct,
       Model_([](ModelJson& c) { c["tie_word_embeddings"] = true; }),
       "another matrix"},
      {"wrapped-names", ct,
       [](Planted& p) {
         Rename(&p, "model.norm.weight", "module.model.norm.weight");
       },
       "begins with \"module.\""},
  };
}

std::vector<Case> ConfigCases() {
  const Base ct = Base::kCompressedTensors;
  const Base mo = Base::kModelOpt;
  return {
      {"config", mo, Own([](ModelJson& q) { q.erase("group_size"); }),
       "no \"group_size\""},
      {"config", mo, Own([](ModelJson& q) { q.erase("exclude_modules"); }),
       "no \"exclude_modules\""},
      {"config", ct,
       Model_([](ModelJson& c) { c.erase("quantization_config"); }),
       "no quantization_config"},
      {"config", ct, Config([](ModelJson& q) { q.erase("ignore"); }),
       "no \"ignore\""},
      {"config", ct, Config([](ModelJson& q) { q.erase("quant_method"); }),
       "no \"quant_method\""},
      {"config-type", ct, Model_([](ModelJson& c) {
         c["quantization_config"] = {1, 2};
       }),
       "\"quantization_config\" is [1,2]"},
      {"config-type", ct, Config([](ModelJson& q) { q["ignore"] = "lm_head"; }),
       "\"ignore\" is \"lm_head\", and a list of texts"},
      {"config-type", ct,
       Group([](ModelJson& g) { g["weights"]["dynamic"] = "false"; }),
       "weights.dynamic\" is \"false\""},
      {"config-type", ct, Group([](ModelJson& g) { g["weights"] = nullptr; }),
       "weights\" is null"},
      {"config-mismatch", ct,
       Group([](ModelJson& g) { g["weights"]["num_bits"] = 8; }),
       "num_bits\" is 8, and for the nvfp4"},
      {"config-mismatch", ct,
       Group([](ModelJson& g) { g["weights"]["type"] = "int"; }),
       "type\" is \"int\""},
      {"config-mismatch", ct,
       Group([](ModelJson& g) { g["weights"]["group_size"] = 32; }),
       "group_size\" is 32"},
      {"config-mismatch", ct,
       Group([](ModelJson& g) { g["weights"]["strategy"] = "channel"; }),
       "strategy\" is \"channel\""},
      {"config-mismatch", ct,
       Group([](ModelJson& g) { g["format"] = "pack-quantized"; }),
       "format\" is \"pack-quantized\""},
      {"config-mismatch", ct,
       Config([](ModelJson& q) { q["format"] = "pack-quantized"; }),
       "\"format\" is \"pack-quantized\""},
      {"config-mismatch", ct,
       Group([](ModelJson& g) { g["targets"] = {"re:.*mlp.*"}; }),
       "no group has it as a target"},
      {"config-mismatch", ct, Config([](ModelJson& q) {
         q["transform_config"] = {{"config_groups", {{"R1", {1}}}}};
       }),
       "\"transform_config\" has R1"},
      {"config-mismatch", ct,
       Config([](ModelJson& q) { q["quantization_status"] = "frozen"; }),
       "is \"frozen\""},
      {"config-mismatch", mo,
       Own([](ModelJson& q) { q["quant_algo"] = "FP8"; }),
       "quant_algo\" is \"FP8\""},
      {"config-mismatch", Base::kDeepSeek, Config([](ModelJson& q) {
         q["weight_block_size"] = {64, 64};
       }),
       "is [64,64]"},
      {"config-mismatch", Base::kDeepSeek,
       Config([](ModelJson& q) { q["scale_fmt"] = "ue8m0"; }),
       "no power of two"},
      {"ignore-list", ct,
       Config([](ModelJson& q) { q["ignore"].push_back(kQ); }), "q_proj"},
      {"ignore-list", ct,
       Config([](ModelJson& q) { q["ignore"].push_back("re:.*self_attn.*"); }),
       "quantized, and on the list"},
      {"ignore-list", mo, Own([](ModelJson& q) {
         q["exclude_modules"].push_back("model.layers.0*");
       }),
       "quantized, and on the list"},
      {"ignore-list", Base::kDeepSeek, Config([](ModelJson& q) {
         q["modules_to_not_convert"].push_back("model.layers.0.self_attn");
       }),
       "quantized, and on the list"},
      {"ignore-list", ct,
       Put("model.layers.0.self_attn.o_proj.weight", {64, 32}),
       "not on the list"},
      // Names are whole, and expressions begin where they do.
      {"ignore-list", ct,
       [](Planted& p) {
         const std::string name = "model.layers.0.self_attn.o_proj.weight";
         p.tensors[name] = Bf16(name, {64, 32});
         for (const char* entry :
              {"layers.0.self_attn.o_proj", "model.layers.0.self_attn.o*",
               "re:o_proj"}) {
           p.config["quantization_config"]["ignore"].push_back(entry);
         }
       },
       "not on the list"},
      {"ignore-list", mo,
       Config([](ModelJson& q) { q["ignore"].push_back("model.layers.9*"); }),
       "differ in model.layers.9*"},
      {"bad-pattern", ct,
       Config([](ModelJson& q) { q["ignore"].push_back("re:*lm_head("); }),
       "re:*lm_head("},
  };
}

std::vector<Case> FileCases() {
  const Base ct = Base::kCompressedTensors;
  const Plant none = [](Planted&) {};
  return {
      {"unreadable", ct, none, "no JSON", false,
       [](const std::string& at) { WriteFile(at + "/config.json", "{\"a\""); }},
      {"unreadable", ct, none, "model.safetensors", false,
       [](const std::string& at) {
         const std::string path = at + "/model.safetensors";
         std::filesystem::resize_file(path,
                                      std::filesystem::file_size(path) - 8);
       }},
      {"stored-twice", ct, Put(kQ + ".weight", {32, 64}),
       "in two dialects at once"},
      {"index", ct, none, "1 tensors of its shards are not in it", false,
       [](const std::string& at) {
         ModelJson map;
         const auto model = Model::Open(at);
         for (const auto& t : model->tensors()) {
           if (t.name() != "lm_head.weight") {
             map[t.name()] = "model.safetensors";
           }
         }
         WriteFile(at + "/model.safetensors.index.json",
                   ModelJson{{"weight_map", map}}.dump());
       }},
      {"stray-file", ct, none, "it has a lm_head.weight of its own", false,
       [](const std::string& at) {
         ModelJson map;
         const auto model = Model::Open(at);
         for (const auto& t : model->tensors()) {
           map[t.name()] = "model.safetensors";
         }
         WriteFile(at + "/model.safetensors.index.json",
                   ModelJson{{"weight_map", map}}.dump());
         WriteSafetensors(at + "/old.safetensors",
                          {Bf16("lm_head.weight", {16, 64})});
       }},
  };
}

std::vector<Case> OriginalCases() {
  const Base ct = Base::kCompressedTensors;
  const Base mo = Base::kModelOpt;
  return {
      {"nibble-order", mo,
       [](Planted& p) {
         for (std::byte& b : p.part(kQ + ".weight").bytes) b = b >> 4 | b << 4;
       },
       "with the halves of bytes swapped", true},
      {"not-the-original", ct,
       [](Planted& p) {
         auto& scales = p.part(kQ + ".weight_scale").bytes;
         std::rotate(scales.begin(), scales.begin() + 37, scales.end());
       },
       "q_proj: the error is", true},
      // One row among many.
      {"not-the-original", ct,
       [](Planted& p) {
         auto& codes = p.part(kQ + ".weight_packed").bytes;
         for (size_t i = 30 * 32; i < 31 * 32; ++i) codes[i] ^= std::byte{0x88};
       },
       "in 1 of the 32 rows", true},
      {"not-the-original", ct, Set(kQ + ".weight_global_scale", 2688 / 0.55f),
       "1.1 times as large", true},
      {"not-the-original", ct,
       [](Planted& p) {
         p.tensors["model.norm.weight"] = Bf16("model.norm.weight", {64}, 1);
       },
       "it is not quantized, and the error is", true},
      {"no-counterpart", ct,
       [](Planted& p) {
         for (const char* end : {"_packed", "_scale", "_global_scale"}) {
           Rename(&p, kV + ".weight" + end,
                  std::string(kAttention) + "w_proj.weight" + end);
         }
       },
       "the original has no such weight of 32 x 64", true},
      {"no-counterpart", ct, Erase("model.embed_tokens.weight"),
       "the model does not", true},
  };
}

class LintRulesTest : public testing::Test {
 protected:
  std::string At(std::string_view name) const { return dir_ / name; }

  // The rules that are broken, with where and why.
  std::string Lints(const Case& c) {
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
  TempDir dir_;
};

TEST_F(LintRulesTest, NothingIsFoundInCleanModels) {
  for (const Base base : {Base::kCompressedTensors, Base::kModelOpt, Base::kFp8,
                          Base::kDeepSeek, Base::kComfy}) {
    EXPECT_EQ(Lints({"", base, {}, ""}), "");
  }
  for (const Base base : {Base::kCompressedTensors, Base::kModelOpt}) {
    EXPECT_EQ(Lints({"", base, {}, "", /*with_original=*/true}), "");
  }
}

TEST_F(LintRulesTest, EveryRuleFindsItsFaults) {
  std::set<std::string_view> seen;
  for (const auto& cases : {ScaleCases(), LayoutCases(), WeightCases(),
                            ConfigCases(), FileCases(), OriginalCases()}) {
    for (const Case& c : cases) {
      SCOPED_TRACE(fmt::format("{}: {}", c.rule, c.says));
      const std::string found = Lints(c);
      EXPECT_THAT(found, HasSubstr(std::string(c.rule) + " "));
      EXPECT_THAT(found, HasSubstr(c.says));
      seen.insert(c.rule);
    }
  }
  std::set<std::string_view> rules;
  for (const LintRule& rule : LintRules()) {
    EXPECT_TRUE(rules.insert(rule.id).second) << rule.id << " is there twice";
    EXPECT_EQ(seen.count(rule.id), 1u) << rule.id << " has no planted fault";
    EXPECT_THAT(std::string(rule.thread), HasSubstr("#"));
  }
  for (const std::string_view rule : seen) {
    EXPECT_EQ(rules.count(rule), 1u) << rule << " is in no table";
  }
}

}  // namespace
}  // namespace quantd::checkpoint
