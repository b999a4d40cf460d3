#include "tests/client/checkpoint/fault.h"

namespace quantd::checkpoint {
namespace {

constexpr char kExpertsOfLayer[] = "model.layers.0.mlp.experts";

WrittenTensor Coded(const std::string& name, const char* dtype,
                    std::vector<int64_t> shape, size_t bytes) {
  return {name, dtype, std::move(shape), std::vector<std::byte>(bytes)};
}

void NoQuantizedWeight(Planted& p) {
  for (const std::string& module : {kQ, kK, kV}) Plain(module)(p);
  p.config.erase("quantization_config");
}

// Adds experts in one tensor without ".weight" in its name, as ModelOpt writes
// them.
void FusedExperts(Planted& p) {
  const std::string name = std::string(kExpertsOfLayer) + ".down_proj";
  p.tensors[name] = Coded(name, "U8", {2, 32, 64}, 2 * 32 * 64);
  const std::string scales = name + "_weight_scale";
  p.tensors[scales] = Coded(scales, "F8_E4M3", {2, 4, 64}, 2 * 4 * 64);
}

void Gptq(Planted& p) {
  const std::string module = "model.layers.0.mlp.up_proj";
  p.tensors[module] = Coded(module + ".qweight", "I32", {8, 64}, 4 * 8 * 64);
  p.tensors[module + ".s"] = Bf16(module + ".scales", {2, 64});
}

Plant Doubles(const char* dtype) {
  return [=](Planted& p) {
    const std::string name = "model.layers.0.mlp.up_proj.weight";
    p.tensors[name] = Coded(name, dtype, {64, 64}, 64 * 64 * 8);
  };
}

// Lists modules by the names in the file.
void ExactNames(Planted& p) {
  Nest(p);
  p.config["quantization_config"]["ignore"] = {
      "vision_tower.encoder.layers.0.mlp.fc1", "multi_modal_projector.linear_1",
      "language_model.lm_head"};
}
void ExactTower(Planted& p) {
  Nest(p);
  p.config["quantization_config"]["ignore"][0] =
      "vision_tower.encoder.layers.0.mlp.fc1";
}
void ExactTargets(Planted& p) {
  Nest(p);
  p.config["quantization_config"]["config_groups"]["group_0"]["targets"] = {
      "language_model." + kQ, "language_model." + kK, "language_model." + kV};
}

void NoHead(Planted& p) {
  p.config["tie_word_embeddings"] = true;
  p.tensors.erase("lm_head.weight");
  p.config["quantization_config"]["ignore"] = ModelJson::array();
}

void HeadOfNoTarget(Planted& p) {
  p.tensors.erase("lm_head.weight");
  Quantized("lm_head")(p);
  p.config["quantization_config"]["ignore"] = ModelJson::array();
}

// Adds a bf16 stack and lists it by its name in the file.
void StackByItsName(Planted& p) {
  const std::string name = std::string(kExpertsOfLayer) + ".gate_up_proj";
  p.tensors[name] = Bf16(name, {2, 64, 128});
  p.config["quantization_config"]["ignore"].push_back(name);
  p.config["num_local_experts"] = 2;
}

// Adds an expert with one scale for its weight and one input scale per token.
void ExpertsByTokens(Planted& p) {
  const std::string module = std::string(kExpertsOfLayer) + ".0.down_proj";
  for (const char* end : {".weight", ".weight_scale"}) {
    WrittenTensor t = p.part(kQ + end);
    t.name = module + end;
    p.tensors[t.name] = t;
  }
  p.config["quantization_config"]["config_groups"]["group_0"]
          ["input_activations"] = {{"num_bits", 8},
                                   {"type", "float"},
                                   {"symmetric", true},
                                   {"strategy", "token"},
                                   {"dynamic", true}};
}

// Adds a second group that lists only the names of the members of a fused
// module.
void GroupOfMembers(Planted& p) {
  ModelJson& groups = p.config["quantization_config"]["config_groups"];
  groups["other"] = groups["group_0"];
  groups["other"]["targets"] = {kQ, kK, kV};
}

}  // namespace

std::vector<Fault> EngineFaults() {
  const Base ct = Base::kCompressedTensors;
  const Base mo = Base::kModelOpt;
  return {
      {"no-quantized-weight", ct, NoQuantizedWeight,
       "it has no quantized weights; is this the original?"},
      {"unknown-format", ct, FusedExperts, "U8 [2, 32, 64]"},
      {"unknown-format", mo, Gptq, "I32 [8, 64]"},
      {"unknown-format", ct, Doubles("F64"), "F64 [64, 64]"},
      {"unknown-format", ct, Doubles("U64"), "U64 [64, 64]"},
      {"ignore-list", ct,
       [](Planted& p) {
         p.config["model_type"] = "nobody_knows";
         Put("model.layers.0.mlp.up_proj.weight", {64, 64})(p);
       },
       "up_proj: it is not quantized, but missing in the list"},
      {"list-prefix", ct, ExactTower,
       "transformers 5 names it model.vision_tower.encoder.layers.0.mlp.fc1"},
      {"list-prefix", ct, ExactNames,
       "language_model.lm_head: the list of modules that are not quantized "
       "names "
       "it as the file does, but transformers 5 names it lm_head"},
      {"list-prefix", ct, ExactTargets,
       "config_groups.group_0 names it as the file does, but transformers 5 "
       "names it model.language_model.layers.0.self_attn.k_proj"},
      {"ignore-list", ct, NoHead,
       "lm_head: the head is tied to the embeddings and in no file"},
      {"no-target", ct, HeadOfNoTarget,
       "lm_head: the output head is quantized"},
      {"kept-plain", ct,
       [](Planted& p) {
         p.tensors.erase("model.embed_tokens.weight");
         Quantized("model.embed_tokens")(p);
       },
       "one of the embeddings, but is quantized"},
      {"stacked-experts", ct,
       Put("model.layers.0.block_sparse_moe.input_linear.weight", {4, 64, 64}),
       "4 experts are stored as BF16"},
      {"kept-plain", ct, Quantized("visual.blocks.0.attn.qkv"),
       "one of the vision and audio layers, but is quantized"},
      {"kept-plain", mo, Quantized("model.layers.0.self_attn.kv_b_proj"),
       "SGLang reads its codes as numbers"},
      {"kept-plain", ct,
       [](Planted& p) { p.config["model_type"] = "llama4_text"; },
       "SGLang does not reorder their scales"},
      {"kept-plain", Base::kComfy,
       [](Planted& p) {
         for (const char* part :
              {".weight", ".weight_scale", ".weight_scale_2", ".comfy_quant"}) {
           WrittenTensor t = p.part(kQ + part);
           t.name = std::string("input_blocks.4.1.attn2.to_k") + part;
           p.tensors[t.name] = t;
         }
       },
       "packed codes have fewer"},
      {"kept-plain", Base::kComfy,
       [](Planted& p) {
         Put("x_embedder.weight", {64, 64})(p);
         Put("transformer_blocks.0.attn.to_q.weight", {64, 64})(p);
       },
       "renames without their scales"},
      {"kept-plain", mo, Quantized("multi_modal_projector.linear_1"),
       "multi_modal_projector.linear_1: it is one of the vision"},
      {"kept-plain", mo, Quantized("model.layers.0.mlp.gate"),
       "one of the routers, but is quantized"},
      {"kept-plain", ct,
       Quantized("model.layers.0.self_attn.indexer.weights_proj"),
       "belongs to the indexer of sparse attention"},
      {"kept-plain", ct, Quantized("model.layers.0.self_attn.indexer.wk"),
       "belongs to the indexer of sparse attention"},
      {"ignore-list", ct, StackByItsName,
       "listed as gate_up_proj, but engines look for "
       "model.layers.0.mlp.experts.0.gate_proj"},
      {"ignore-list", ct,
       [](Planted& p) {
         const std::string name = "model.layers.0.moe.gate_proj.weight";
         p.tensors[name] = Bf16(name, {2, 64, 64});
         p.config["quantization_config"]["ignore"].push_back(
             "model.layers.0.moe.gate_proj");
       },
       "but engines look for model.layers.0.moe.experts.0.gate_proj"},
      {"experts-scheme", Base::kFp8, ExpertsByTokens,
       "experts.0.down_proj: it has one scale for the weight and one for each"},
      {"fused-squares", Base::kDeepSeek,
       [](Planted& p) {
         const std::string codes = kK + ".weight";
         p.part(codes) = {codes,
                          "F8_E4M3",
                          {64, 64},
                          std::vector<std::byte>(64 * 64, std::byte{0x38})};
       },
       "k_proj: it has 64 rows, which is not a multiple of 128"},
      {"no-target", ct, GroupOfMembers,
       "it is a target of config_groups.other, but engines fuse it into "
       "qkv_proj"},
  };
}

}  // namespace quantd::checkpoint
