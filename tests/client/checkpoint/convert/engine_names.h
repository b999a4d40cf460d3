// Imitates how engines match modules with the lists of a quantization_config,
// and how they name the modules of well-known models.
#ifndef QUANTD_TESTS_CLIENT_CHECKPOINT_CONVERT_ENGINE_NAMES_H_
#define QUANTD_TESTS_CLIENT_CHECKPOINT_CONVERT_ENGINE_NAMES_H_

#include <algorithm>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "client/checkpoint/architecture.h"
#include "tests/client/checkpoint/model_writer.h"

namespace quantd::checkpoint {

using Names = std::vector<std::string>;

inline const std::map<std::string, Names>& Packed() {
  static const auto* const packed = new std::map<std::string, Names>{
      {"qkv_proj", {"q_proj", "k_proj", "v_proj"}},
      {"gate_up_proj", {"gate_proj", "up_proj"}},
      {"fused_qkv_a_proj", {"q_a_proj", "kv_a_proj_with_mqa"}}};
  return *packed;
}

// The parts of a fused module; empty for any other.
inline Names ShardsOf(const std::string& module) {
  const auto [parent, leaf] = SplitModule(module);
  Names shards;
  if (const auto p = Packed().find(std::string(leaf)); p != Packed().end()) {
    for (const std::string& s : p->second) {
      shards.push_back(std::string(parent) + "." + s);
    }
  }
  return shards;
}

// Python's re.match.
inline bool Matches(const std::string& text, const std::string& name) {
  if (!text.starts_with("re:")) return text == name;
  return std::regex_search(name, std::regex(text.substr(3)),
                           std::regex_constants::match_continuous);
}
inline bool AnyMatches(const Names& list, const std::string& name) {
  return std::any_of(list.begin(), list.end(),
                     [&](auto& text) { return Matches(text, name); });
}

// Python's fnmatch, for names without its other special characters.
inline bool Globs(const std::string& glob, const std::string& name) {
  std::string text;
  for (const char c : glob) {
    text += c == '*' ? ".*" : c == '.' ? "\\." : std::string(1, c);
  }
  return std::regex_match(name, std::regex(text));
}

// Returns whether `one` holds for a module, or for all of its fused parts.
// Parts that disagree fail the test, because an engine raises an error for
// them.
template <typename One>
bool Agreed(const std::string& module, const Names& shards, One&& one) {
  if (shards.empty()) return one(module);
  const auto n = std::count_if(shards.begin(), shards.end(), one);
  EXPECT_TRUE(n == 0 || n == static_cast<ptrdiff_t>(shards.size()))
      << module << ": only some of its fused parts";
  return n > 0;
}

// Returns whether this is the name by which engines look up the experts of a
// layer.
inline bool IsExperts(const std::string& module) {
  return module.ends_with(".experts");
}
inline Names VllmExperts(const std::string& module) {
  const bool w = module.find("block_sparse_moe") != std::string::npos;
  Names names;
  for (const char* leaf :
       {w ? "w1" : "gate_proj", w ? "w3" : "up_proj", w ? "w2" : "down_proj"}) {
    names.push_back(module + ".0." + leaf);
  }
  return names;
}
inline Names SglangExperts(const std::string& module) {
  return {module + ".0.gate_proj", module + ".0.up_proj",
          module + ".0.down_proj"};
}

struct Reader {
  const char* name;
  bool (*plain)(const Names& list, const std::string& module);
};

inline const Reader kCompressedTensors[] = {
    {"compressed-tensors",
     [](const Names& list, const std::string& m) {
       if (IsExperts(m)) return AnyMatches(list, m + ".0.down_proj");
       return Agreed(m, ShardsOf(m),
                     [&](auto& n) { return AnyMatches(list, n); });
     }},
    {"vLLM",
     [](const Names& list, const std::string& m) {
       if (AnyMatches(list, m)) return true;
       return Agreed(m, IsExperts(m) ? VllmExperts(m) : ShardsOf(m),
                     [&](auto& n) { return AnyMatches(list, n); });
     }},
    {"SGLang", [](const Names& list, const std::string& m) {
       return Agreed(
           m, IsExperts(m) ? SglangExperts(m) : ShardsOf(m), [&](auto& n) {
             return AnyMatches(list, n) ||
                    std::any_of(list.begin(), list.end(),
                                [&](auto& t) { return n.ends_with("." + t); });
           });
     }}};

inline const Reader kModelOpt[] = {
    {"vLLM",
     [](const Names& list, const std::string& m) {
       const auto exact = [&](auto& n) {
         return std::find(list.begin(), list.end(), n) != list.end();
       };
       return Agreed(m, ShardsOf(m), exact) ||
              std::any_of(list.begin(), list.end(), [&](auto& text) {
                return m.find(text) != std::string::npos || Globs(text, m);
              });
     }},
    {"SGLang", [](const Names& list, const std::string& m) {
       return std::any_of(list.begin(), list.end(), [&](auto& text) {
         std::string rest = m;
         for (;;) {
           if (Globs(text, rest.substr(0, rest.find('.')))) return true;
           if (rest.find('.') == std::string::npos) break;
           rest = rest.substr(rest.find('.') + 1);
         }
         return Globs(text, m);
       });
     }}};

inline const Reader kDeepSeek[] = {
    {"vLLM",
     [](const Names& list, const std::string& m) {
       if (IsExperts(m)) {
         return std::any_of(list.begin(), list.end(), [&](auto& t) {
           return t.find(m) != std::string::npos;
         });
       }
       return Agreed(m, ShardsOf(m), [&](auto& n) {
         return std::find(list.begin(), list.end(), n) != list.end();
       });
     }},
    {"SGLang",
     [](const Names& list, const std::string& module) {
       // SGLang has its own names for modules of vision towers.
       std::string m = module;
       if (m.ends_with(".attn.qkv")) m += "_proj";
       if (const size_t out = m.find("out_proj"); out != std::string::npos) {
         m.erase(out, 4);
       }
       return Agreed(m, ShardsOf(m), [&](auto& n) {
         return std::any_of(list.begin(), list.end(), [&](auto& t) {
           return ("." + n + ".").find("." + t + ".") != std::string::npos;
         });
       });
     }},
    {"transformers", [](const Names& list, const std::string& m) {
       return Agreed(m, ShardsOf(m), [&](auto& n) {
         return std::any_of(list.begin(), list.end(), [&](auto& t) {
           return n == t || n.starts_with(t + ".") || n.ends_with(t);
         });
       });
     }}};

// A model's tensors, and the engines' names of the modules that must be
// quantized or plain.
struct Family {
  std::string name;
  ModelJson config;
  std::vector<WrittenTensor> tensors;
  Names plain;
  Names quantized;
};

inline void AddMatrices(Family* f, const std::string& parent,
                        const Names& leaves) {
  for (const std::string& leaf : leaves) {
    f->tensors.push_back(Bf16(parent + leaf + ".weight", {128, 128}));
  }
}
inline void AddAttention(Family* f, const std::string& layer) {
  AddMatrices(f, layer + "self_attn.",
              {"q_proj", "k_proj", "v_proj", "o_proj"});
}
inline const Names kGatedMlp = {"gate_proj", "up_proj", "down_proj"};

// Adds the names of a language model's layer under each prefix.
inline void Expect(Names* names, const Names& prefixes, const Names& modules) {
  for (const std::string& prefix : prefixes) {
    for (const std::string& module : modules) names->push_back(prefix + module);
  }
}
inline const Names kTextPrefixes = {"model.", "language_model.model.",
                                    "model.language_model."};
inline const Names kTextAttention = {"layers.0.self_attn.q_proj",
                                     "layers.0.self_attn.qkv_proj",
                                     "layers.0.self_attn.o_proj"};
inline const Names kTextMlp = {"layers.0.mlp.gate_proj",
                               "layers.0.mlp.gate_up_proj",
                               "layers.0.mlp.down_proj"};

inline ModelJson Config(const char* type) {
  return {{"model_type", type},       {"hidden_size", 128},
          {"num_hidden_layers", 2},   {"num_attention_heads", 1},
          {"num_key_value_heads", 1}, {"head_dim", 128}};
}
inline ModelJson Nested(const char* type) {
  return {{"model_type", type},
          {"text_config", Config("llama")},
          {"vision_config", {{"hidden_size", 128}}}};
}

inline std::vector<Family> Families() {
  std::vector<Family> all;
  {
    Family f = {"Llama", Config("llama"), {}, {"lm_head"}, {}};
    for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
      AddAttention(&f, layer);
      AddMatrices(&f, std::string(layer) + "mlp.", kGatedMlp);
    }
    AddMatrices(&f, "", {"lm_head", "model.embed_tokens"});
    Expect(&f.quantized, {"model."}, kTextAttention);
    Expect(&f.quantized, {"model."}, kTextMlp);
    all.push_back(std::move(f));
  }
  for (const char* type : {"llava", "gemma3"}) {
    Family f = {type, Nested(type), {}, {"lm_head"}, {}};
    AddAttention(&f, "language_model.model.layers.0.");
    AddMatrices(&f, "language_model.model.layers.0.mlp.", kGatedMlp);
    const std::string tower = "vision_tower.vision_model.encoder.layers.0.";
    AddAttention(&f, tower);
    AddMatrices(&f, tower, {"self_attn.out_proj", "mlp.fc1", "mlp.fc2"});
    AddMatrices(&f, "multi_modal_projector.", {"linear_1"});
    // Llava has a head of its own; Gemma's is tied to the embeddings.
    if (f.name == "llava") AddMatrices(&f, "language_model.", {"lm_head"});
    Expect(&f.plain, {"", "model."},
           {tower + "self_attn.q_proj", tower + "self_attn.qkv_proj",
            tower + "self_attn.out_proj", tower + "mlp.fc1",
            "multi_modal_projector.linear_1"});
    f.plain.emplace_back("language_model.lm_head");
    Expect(&f.quantized, kTextPrefixes, kTextAttention);
    Expect(&f.quantized, kTextPrefixes, kTextMlp);
    all.push_back(std::move(f));
  }
  {
    Family f = {"Qwen2.5-VL", Nested("qwen2_5_vl"), {}, {"lm_head"}, {}};
    AddAttention(&f, "model.layers.0.");
    AddMatrices(&f, "model.layers.0.mlp.", kGatedMlp);
    AddMatrices(&f, "visual.",
                {"blocks.0.attn.qkv", "blocks.0.mlp.gate_proj",
                 "blocks.0.mlp.up_proj", "merger.mlp.0"});
    AddMatrices(&f, "", {"lm_head"});
    Expect(&f.plain, {"visual.", "model.visual."},
           {"blocks.0.attn.qkv", "blocks.0.mlp.gate_up_proj", "merger.mlp.0"});
    Expect(&f.quantized, kTextPrefixes, kTextAttention);
    Expect(&f.quantized, kTextPrefixes, kTextMlp);
    all.push_back(std::move(f));
  }
  for (const char* type : {"mixtral", "qwen3_moe"}) {
    const bool mixtral = std::string(type) == "mixtral";
    const std::string moe = mixtral ? "block_sparse_moe." : "mlp.";
    Family f = {type, Config(type), {}, {"lm_head"}, {}};
    for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
      AddAttention(&f, layer);
      AddMatrices(&f, layer + moe, {"gate"});
      for (const char* e : {"experts.0.", "experts.1."}) {
        AddMatrices(&f, layer + moe + e,
                    mixtral ? Names{"w1", "w2", "w3"} : kGatedMlp);
      }
      f.plain.push_back(layer + moe + "gate");
      f.quantized.push_back(layer + moe + "experts");
    }
    AddMatrices(&f, "", {"lm_head"});
    Expect(&f.quantized, {"model."}, kTextAttention);
    all.push_back(std::move(f));
  }
  {
    Family f = {"DeepSeek-V3", Config("deepseek_v3"), {}, {"lm_head"}, {}};
    // The last layer is an MTP head.
    for (const std::string layer :
         {"model.layers.0.", "model.layers.1.", "model.layers.2."}) {
      AddMatrices(&f, layer + "self_attn.",
                  {"q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj",
                   "o_proj"});
      const std::string mlp = layer + "mlp.";
      AddMatrices(&f, mlp, {"gate"});
      AddMatrices(&f, mlp + "experts.0.", kGatedMlp);
      AddMatrices(&f, mlp + "experts.1.", kGatedMlp);
      AddMatrices(&f, mlp + "shared_experts.", kGatedMlp);
    }
    AddMatrices(&f, "model.layers.2.", {"eh_proj"});
    AddMatrices(&f, "", {"lm_head"});
    Expect(&f.plain, {"model.layers."},
           {"0.mlp.gate", "1.mlp.gate", "2.eh_proj", "2.mlp.experts",
            "2.self_attn.fused_qkv_a_proj", "2.self_attn.o_proj"});
    Expect(&f.quantized, {"model.layers.0."},
           {"self_attn.fused_qkv_a_proj", "self_attn.q_b_proj", "mlp.experts",
            "mlp.shared_experts.gate_up_proj"});
    all.push_back(std::move(f));
  }
  {
    Family f = {"gpt-oss", Config("gpt_oss"), {}, {"lm_head"}, {}};
    AddAttention(&f, "model.layers.0.");
    AddMatrices(&f, "model.layers.0.mlp.", {"router"});
    const std::string experts = "model.layers.0.mlp.experts";
    for (const char* leaf : {"gate_up_proj", "down_proj"}) {
      const int64_t rows = std::string(leaf) == "down_proj" ? 128 : 256;
      f.tensors.push_back(Bf16(experts + "." + leaf, {2, 128, rows}));
      f.tensors.push_back(Bf16(experts + "." + leaf + "_bias", {2, rows}));
    }
    AddMatrices(&f, "", {"lm_head"});
    Expect(&f.plain, {"model.layers.0.mlp."}, {"router", "experts"});
    Expect(&f.quantized, {"model."}, kTextAttention);
    all.push_back(std::move(f));
  }
  return all;
}

}  // namespace quantd::checkpoint

#endif  // QUANTD_TESTS_CLIENT_CHECKPOINT_CONVERT_ENGINE_NAMES_H_
