// How engines name the modules of well-known models.
#ifndef QUANTD_TESTS_CLIENT_CHECKPOINT_CONVERT_FAMILIES_H_
#define QUANTD_TESTS_CLIENT_CHECKPOINT_CONVERT_FAMILIES_H_

#include <string>
#include <utility>
#include <vector>

#include "tests/client/checkpoint/convert/engine_names.h"

namespace quantd::checkpoint {

// A model's tensors, and the engines' names of the modules that must be
// quantized or plain.
struct Family {
  std::string name;
  ModelJson config;
  std::vector<WrittenTensor> tensors;
  Names plain;
  Names quantized;
  // Further names of plain modules. Only lists with regular expressions must
  // match them, because engines also rename the entries of other lists.
  Names mapped = {};
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

// Adds the names of the modules under each prefix.
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

// A language model of two layers.
inline Family TextFamily(const char* name, ModelJson config) {
  Family f = {name, std::move(config), {}, {"lm_head"}, {}};
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    AddAttention(&f, layer);
    AddMatrices(&f, std::string(layer) + "mlp.", kGatedMlp);
  }
  AddMatrices(&f, "", {"lm_head"});
  Expect(&f.quantized, {"model."}, kTextAttention);
  Expect(&f.quantized, {"model."}, kTextMlp);
  return f;
}

// Towers in the file, and their names in vLLM.
inline void AddRenamedTowers(std::vector<Family>* all) {
  const struct {
    const char* name;
    Names stored;
    Names named;
  } cases[] = {
      {"HunyuanOCR", {"vit."}, {"visual."}},
      {"HyperCLOVA X", {"vision_model."}, {"visual."}},
      {"OpenCUA", {"vision_tower."}, {"visual."}},
      {"Pixtral",
       {"vision_tower.", "multi_modal_projector."},
       {"vision_encoder.", "vision_language_adapter."}},
      {"LightOnOCR",
       {"model.vision_encoder.", "model.vision_projection."},
       {"vision_tower.", "multi_modal_projector."}},
      {"Muse", {"model.vision_tower."}, {"vision_encoder."}},
      {"MiniCPM-V 4.6", {"model.vision_tower."}, {"vpm.", "vit_merger."}},
      {"Kimi-Audio",
       {"model.vq_adaptor."},
       {"audio_tower.", "multi_modal_projector."}},
      {"Qwen3-ASR", {"model.multi_modal_projector."}, {"audio_tower.proj1."}},
      {"Nano Omni", {"sound_projection."}, {"sound_encoder.projection."}},
      {"Voxtral",
       {"mm_whisper_embeddings.audio_language_projection."},
       {"audio_language_adapter."}}};
  for (const auto& c : cases) {
    Family f = TextFamily(c.name, Nested("llama"));
    for (const std::string& tower : c.stored) {
      AddMatrices(&f, tower, {"layers.0.mlp.fc1", "linear_1"});
    }
    Expect(&f.mapped, c.named, {"layers.0.mlp.fc1", "linear_1"});
    all->push_back(std::move(f));
  }
}

// ERNIE-VL's router has a matrix for text and one for images.
inline void AddRenamedRouters(std::vector<Family>* all) {
  Family f = TextFamily("ERNIE-VL", Config("ernie4_5_moe_vl"));
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    AddMatrices(&f, layer + "mlp.", {"gate"});
    f.tensors.push_back(Bf16(layer + "mlp.gate.weight_1", {2, 128}));
    Expect(&f.plain, {layer + "mlp."},
           {"gate", "text_experts_gate", "vision_experts_gate"});
  }
  all->push_back(std::move(f));
}

// MTP heads that vLLM loads as layers after the last, and SGLang as "decoder"
// or "mtp_block".
inline void AddFurtherTokens(std::vector<Family>* all) {
  const struct {
    const char* type;
    const char* stored;
    Names named;
    Names mapped;
  } cases[] = {
      {"mimo", "model.mtp_layers.0.", {"model.layers.2."}, {}},
      {"mimo", "model.mtp_layers.1.", {"model.layers.3."}, {}},
      {"ernie4_5_moe",
       "model.mtp_block.0.",
       {"model.layers.2."},
       {"model.mtp_block.", "model.layers.2.mtp_block."}},
      {"deepseek_v4", "mtp.0.", {"model.layers.2."}, {}},
      {"longcat_flash",
       "model.mtp.layers.0.transformer_layer.",
       {"model.layers.4."},
       {"model.layers.4.mtp_block."}},
      {"step3p5",
       "model.layers.2.",
       {"model.layers.2."},
       {"model.layers.2.mtp_block."}},
      {"glm4_moe", "model.layers.2.", {"model.layers.2."}, {"model.decoder."}},
      {"openpangu", "model.layers.2.", {"model.layers.2."}, {}},
      {"qwen3_next", "mtp.layers.0.", {"mtp.layers.0."}, {}},
      {"exaone_moe", "mtp.layers.0.", {"mtp.layers.0."}, {}},
      {"nemotron_h", "mtp.layers.0.", {"mtp.layers.0."}, {}}};
  for (const auto& c : cases) {
    Family f = TextFamily(c.type, Config(c.type));
    f.config["architectures"] = {"MiMoForCausalLM"};
    AddAttention(&f, c.stored);
    AddMatrices(&f, c.stored, {"mlp.down_proj", "eh_proj"});
    const Names modules = {"self_attn.qkv_proj", "self_attn.o_proj",
                           "mlp.down_proj"};
    Expect(&f.plain, c.named, modules);
    Expect(&f.mapped, c.mapped, modules);
    f.mapped.emplace_back("eh_proj");
    all->push_back(std::move(f));
  }
}

// Engines fuse the gates of linear attention with its queries.
inline void AddDeltaAttention(std::vector<Family>* all) {
  Family f = TextFamily("Kimi-Linear", Config("kimi_linear"));
  const std::string kda = "model.layers.2.self_attn.";
  f.config["num_hidden_layers"] = 3;
  AddAttention(&f, "model.layers.2.");
  AddMatrices(&f, kda,
              {"b_proj", "f_a_proj", "f_b_proj", "g_a_proj", "g_b_proj"});
  Expect(&f.plain, {kda}, {"q_proj", "qkv_proj", "in_proj_qkvgfab"});
  Expect(&f.mapped, {kda},
         {"in_proj_qkvbfg_a", "fused_qkvbfg_a_proj", "fused_fg_b_proj"});
  f.quantized.push_back(kda + "o_proj");
  all->push_back(std::move(f));
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
  for (auto* add : {AddRenamedTowers, AddRenamedRouters, AddFurtherTokens,
                    AddDeltaAttention}) {
    add(&all);
  }
  return all;
}

}  // namespace quantd::checkpoint

#endif  // QUANTD_TESTS_CLIENT_CHECKPOINT_CONVERT_FAMILIES_H_
