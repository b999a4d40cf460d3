#include "client/checkpoint/architecture.h"

#include <algorithm>

#include "client/files/words.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// Siblings that vLLM, SGLang and TensorRT-LLM pack into one matrix.
constexpr std::string_view kFused[] = {
    // With the gates of linear attention, like Kimi's, and the index of sparse
    // attention, like MiniMax-M3's.
    "q_proj,k_proj,v_proj,a_proj,b_proj,f_proj,f_a_proj,g_a_proj,"
    "index_q_proj,index_k_proj,index_qk_proj",
    "f_b_proj,g_b_proj",
    "gate_proj,up_proj,dense_h_to_4h",
    "w1,w3",
    "query,key,value,key_value",
    "query_net,key_net,value_net",
    "q,k,v",
    "wq,wk,wv",
    "to_q,to_k,to_v",
    "add_q_proj,add_k_proj,add_v_proj",
    "q_lin,k_lin,v_lin",
    "wi_0,wi_1",
    "q_a_proj,kv_a_proj_with_mqa,g_proj",
    "in_proj_qkv,in_proj_z",
    "in_proj_b,in_proj_a",
    "fc11,fc12",
    "fc1,fc3",
    "c_fc_0,c_fc_1",
};

// Model types for which the fusions of engines were checked. For other types,
// siblings with unknown names are assumed to be fused.
constexpr Words kKnownTypes = R"(
    apertus arcee bert bloom camembert cohere cohere2 dbrx deepseek_v2
    deepseek_v3 distilbert ernie4_5 ernie4_5_moe exaone4 falcon gemma gemma2
    gemma3 gemma3_text glm glm4 glm4_moe gpt2 gpt_neox gpt_oss granite
    granitemoe hunyuan_v1_moe internlm2 kimi_k2 llama llama4 llama4_text llava
    minimax ministral mistral mistral3 mixtral mpnet nemotron olmo olmo2 olmoe
    phi phi3 qwen2 qwen2_5_vl qwen2_moe qwen2_vl qwen3 qwen3_moe qwen3_next
    qwen3_vl qwen3_vl_moe roberta seed_oss smollm3 stablelm starcoder2 t5
    xlm-roberta)";

// Modules that are Conv1D layers in transformers.
constexpr Words kTransposed = "c_attn c_proj c_fc q_attn";

// Whether c_attn or c_fc has more columns than rows. In a Linear they would
// have more rows, because they have more outputs than inputs.
bool IsWide(const Model& model) {
  return std::ranges::any_of(model.tensors(), [](const auto& t) {
    const std::vector<int64_t>& shape = t.stored.shape;
    return (t.name().ends_with(".c_attn.weight") ||
            t.name().ends_with(".c_fc.weight")) &&
           shape.size() == 2 && shape[0] < shape[1];
  });
}

// Whether a gated MLP consists of w1, w2 and c_proj, as in the first Qwen.
bool HasTwoGates(const Model& model) {
  return std::ranges::any_of(model.tensors(), [&](const auto& t) {
    const auto [parent, leaf] = SplitModule(ModuleOf(t.name()));
    return leaf == "w2" &&
           model.Find(std::string(parent) + ".c_proj.weight") != nullptr;
  });
}

FusedNames Names(std::string_view text) {
  const NameParts parts = Split(text, ',');
  return {parts.begin(), parts.end()};
}

}  // namespace

absl::StatusOr<Architecture> Architecture::Of(
    const Model& model, const std::vector<std::string>& more) {
  Architecture a;
  a.known_ = Has(kKnownTypes, model.model_type());
  a.transposed_ = IsWide(model);
  a.roles_ = Roles::Of(model);
  for (const std::string& text : more) {
    const FusedNames names = Names(text);
    const bool bad =
        names.size() < 2 || std::ranges::any_of(names, [](auto& n) {
          return n.empty() || n.find('.') != std::string::npos;
        });
    if (bad) {
      return absl::InvalidArgumentError(
          fmt::format("--fuse {}: expected the names of two or more siblings, "
                      "separated by commas, like q_proj,k_proj,v_proj",
                      text));
    }
    a.fused_.push_back(names);
  }
  // The user's groups take precedence.
  if (HasTwoGates(model)) a.fused_.push_back({"w1", "w2"});
  for (const std::string_view text : kFused) {
    a.fused_.push_back(Names(text));
  }
  return a;
}

bool Architecture::IsTransposed(std::string_view module) const {
  return transposed_ && Has(kTransposed, SplitModule(module).leaf);
}

std::string Architecture::FusionKey(std::string_view module,
                                    int64_t cols) const {
  // The ending of a module's name if the model keeps an adapter beside it.
  constexpr std::string_view kInner = ".base_layer";
  if (module.ends_with(kInner)) module.remove_suffix(kInner.size());
  auto [parent, leaf] = SplitModule(module);
  // Engines fuse the index with the attention that holds the indexer.
  if (leaf.starts_with("index_")) {
    const ModuleName above = SplitModule(parent);
    if (above.leaf == "indexer") parent = above.parent;
  }
  for (size_t i = 0; i < fused_.size(); ++i) {
    if (Has(fused_[i], leaf)) return fmt::format("{}#{}", parent, i);
  }
  if (known_ || IsLinearName(leaf)) return "";
  return fmt::format("{}#k={}", parent, cols);
}

}  // namespace quantd::checkpoint
