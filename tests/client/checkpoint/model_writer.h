// Writes small models to disk: tensors in shards, an index, a config.json.
#ifndef QUANTD_TESTS_CLIENT_CHECKPOINT_MODEL_WRITER_H_
#define QUANTD_TESTS_CLIENT_CHECKPOINT_MODEL_WRITER_H_

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "client/files/safetensors.h"
#include "fmt/format.h"
#include "tests/client/temp_dir.h"
#include "tests/testing/matchers.h"

namespace quantd {

using ModelJson = nlohmann::ordered_json;

// Returns normally distributed bf16 numbers, determined by the name.
inline std::vector<std::byte> NormalBf16(const std::string& name,
                                         size_t elements, float scale) {
  std::mt19937 random(static_cast<uint32_t>(std::hash<std::string>()(name)));
  std::normal_distribution<float> normal;
  std::vector<std::byte> bytes(elements * 2);
  for (size_t i = 0; i < elements; ++i) {
    const float x = normal(random) * scale;
    uint32_t bits = 0;
    std::memcpy(&bits, &x, 4);
    bits += 0x7FFF + (bits >> 16 & 1);
    bytes[2 * i] = static_cast<std::byte>(bits >> 16);
    bytes[2 * i + 1] = static_cast<std::byte>(bits >> 24);
  }
  return bytes;
}

struct WrittenTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};

// Returns a bf16 tensor of that shape.
inline WrittenTensor Bf16(const std::string& name, std::vector<int64_t> shape,
                          float scale = 0.02f) {
  size_t elements = 1;
  for (const int64_t d : shape) elements *= static_cast<size_t>(d);
  return {name, "BF16", std::move(shape), NormalBf16(name, elements, scale)};
}

inline void WriteSafetensors(const std::string& path,
                             const std::vector<WrittenTensor>& tensors,
                             const safetensors::Metadata& metadata = {}) {
  std::vector<safetensors::Tensor> planned;
  for (const WrittenTensor& t : tensors) {
    planned.push_back({t.name, t.dtype, t.shape, 0, t.bytes.size()});
  }
  ASSERT_OK_AND_ASSIGN(auto writer,
                       safetensors::Writer::Create(path, planned, metadata));
  for (const WrittenTensor& t : tensors) {
    ASSERT_THAT(writer.Append(t.name, t.bytes), IsOk());
  }
  ASSERT_THAT(writer.Commit(), IsOk());
}

// Writes a directory as on a model hub, with a shard for each list of tensors.
inline void WriteModel(const std::string& path, const ModelJson& config,
                       const std::vector<std::vector<WrittenTensor>>& shards) {
  std::filesystem::create_directories(path);
  ModelJson index = {{"metadata", {{"total_size", 0}}},
                     {"weight_map", ModelJson::object()}};
  uint64_t total = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name =
        shards.size() == 1 ? "model.safetensors"
                           : fmt::format("model-{:05}-of-{:05}.safetensors",
                                         i + 1, shards.size());
    WriteSafetensors(path + "/" + name, shards[i], {{"format", "pt"}});
    for (const WrittenTensor& t : shards[i]) {
      index["weight_map"][t.name] = name;
      total += t.bytes.size();
    }
  }
  index["metadata"]["total_size"] = total;
  if (shards.size() > 1) {
    WriteFile(path + "/model.safetensors.index.json", index.dump(2));
  }
  WriteFile(path + "/config.json", config.dump(2));
  WriteFile(path + "/tokenizer.json", "{\"version\": \"1.0\"}");
}

// A Llama of two layers with hidden size 128. It has two shards, and the second
// one begins with v_proj of the second layer.
inline ModelJson LlamaConfig() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", 128},
          {"intermediate_size", 256},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"vocab_size", 96},
          {"torch_dtype", "bfloat16"},
          {"tie_word_embeddings", false}};
}
inline std::vector<std::vector<WrittenTensor>> LlamaShards() {
  std::vector<WrittenTensor> all = {
      Bf16("model.embed_tokens.weight", {96, 128})};
  size_t seam = 0;
  for (int i = 0; i < 2; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    const std::string attention = layer + "self_attn.";
    all.push_back(Bf16(attention + "q_proj.weight", {128, 128}));
    all.push_back(Bf16(attention + "k_proj.weight", {64, 128}, 0.05f));
    seam = all.size();
    all.push_back(Bf16(attention + "v_proj.weight", {64, 128}, 0.01f));
    all.push_back(Bf16(attention + "o_proj.weight", {128, 128}));
    all.push_back(Bf16(layer + "mlp.gate_proj.weight", {256, 128}));
    all.push_back(Bf16(layer + "mlp.up_proj.weight", {256, 128}, 0.03f));
    all.push_back(Bf16(layer + "mlp.down_proj.weight", {128, 256}));
    all.push_back(Bf16(layer + "input_layernorm.weight", {128}, 1));
    all.push_back(Bf16(layer + "post_attention_layernorm.weight", {128}, 1));
  }
  all.push_back(Bf16("model.norm.weight", {128}, 1));
  all.push_back(Bf16("lm_head.weight", {96, 128}));
  const auto cut = all.begin() + static_cast<ptrdiff_t>(seam);
  return {{all.begin(), cut}, {cut, all.end()}};
}
inline void WriteLlama(const std::string& path) {
  WriteModel(path, LlamaConfig(), LlamaShards());
}

}  // namespace quantd

#endif  // QUANTD_TESTS_CLIENT_CHECKPOINT_MODEL_WRITER_H_
