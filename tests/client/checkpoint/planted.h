// A clean quantized model of one layer, in which faults are planted.
#ifndef QUANTD_TESTS_CLIENT_CHECKPOINT_PLANTED_H_
#define QUANTD_TESTS_CLIENT_CHECKPOINT_PLANTED_H_

#include <filesystem>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "client/checkpoint/lint/finding.h"
#include "client/checkpoint/model.h"
#include "tests/client/checkpoint/quantized_writer.h"

namespace quantd::checkpoint {

inline constexpr char kAttention[] = "model.layers.0.self_attn.";

// Returns the config.json of a model with one layer that has only attention
// weights.
inline ModelJson PlantedConfig() {
  ModelJson config = LlamaConfig();
  config["hidden_size"] = 64;
  config["num_hidden_layers"] = 1;
  config["num_attention_heads"] = 1;
  config["num_key_value_heads"] = 1;
  config["head_dim"] = 32;
  config["vocab_size"] = 16;
  config["rope_theta"] = 10000.0;
  config["num_experts_per_tok"] = 2;
  return config;
}

// A quantized model and its original, to be changed and written.
struct Planted {
  Nvfp4Names names = Nvfp4Names::kCompressedTensors;
  ModelJson config = PlantedConfig();
  ModelJson own = {{"quantization",
                    {{"quant_algo", "W4A16_NVFP4"},
                     {"kv_cache_quant_algo", nullptr},
                     {"group_size", 16},
                     {"exclude_modules", {"lm_head"}}}}};
  std::map<std::string, WrittenTensor> tensors;
  std::vector<WrittenTensor> original;

  WrittenTensor& part(const std::string& name) { return tensors.at(name); }
};

inline void Rename(Planted* p, const std::string& from, const std::string& to) {
  WrittenTensor t = p->part(from);
  p->tensors.erase(from);
  t.name = to;
  p->tensors[to] = t;
}

// Pads scales to whole tiles of 128 x 4, in linear or swizzled layout.
inline void Pad(WrittenTensor* scales, bool swizzled) {
  const int64_t rows = scales->shape[0];
  const int64_t across = scales->shape[1];
  const int64_t line = (across + 3) / 4 * 4;
  std::vector<std::byte> bytes((rows + 127) / 128 * 128 * line);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < across; ++j) {
      const int64_t tile = i / 128 * (line / 4) + j / 4;
      const int64_t at =
          swizzled ? tile * 512 + i % 32 * 16 + i % 128 / 32 * 4 + j % 4
                   : i * line + j;
      bytes[at] = scales->bytes[i * across + j];
    }
  }
  scales->shape = {(rows + 127) / 128 * 128, line};
  scales->bytes = bytes;
}

inline Planted Clean(Nvfp4Names names, float amax = 0.5f) {
  Planted p;
  p.names = names;
  const bool ct = names == Nvfp4Names::kCompressedTensors;
  p.config["quantization_config"] =
      ct ? CompressedTensorsJson()
         : ModelJson{{"quant_method", "modelopt"}, {"ignore", {"lm_head"}}};
  for (const char* leaf : {"q_proj", "k_proj", "v_proj"}) {
    const MadeNvfp4 made =
        MakeNvfp4(std::string(kAttention) + leaf, 32, 64, names, amax);
    for (const WrittenTensor& t : made.parts) p.tensors[t.name] = t;
    p.original.push_back(made.plain);
  }
  for (const WrittenTensor& t :
       {Bf16("lm_head.weight", {16, 64}), Bf16("model.norm.weight", {64}),
        Bf16("model.embed_tokens.weight", {16, 64})}) {
    p.tensors[t.name] = t;
    p.original.push_back(t);
  }
  return p;
}

inline void PrintTo(const Finding& f, std::ostream* out) {
  *out << f.rule << " " << f.where << ": " << f.text;
}

inline Model WritePlanted(const std::string& path, const Planted& p) {
  std::filesystem::remove_all(path);
  std::vector<WrittenTensor> tensors;
  for (const auto& [name, t] : p.tensors) tensors.push_back(t);
  WriteModel(path, p.config, {tensors});
  if (p.names == Nvfp4Names::kModelOpt) {
    WriteFile(path + "/hf_quant_config.json", p.own.dump());
  }
  return *Model::Open(path);
}
inline Model WritePlantedOriginal(const std::string& path, const Planted& p) {
  std::filesystem::remove_all(path);
  ModelJson config = p.config;
  config.erase("quantization_config");
  WriteModel(path, config, {p.original});
  return *Model::Open(path);
}

}  // namespace quantd::checkpoint

#endif  // QUANTD_TESTS_CLIENT_CHECKPOINT_PLANTED_H_
