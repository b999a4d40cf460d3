#include "client/checkpoint/anatomy/linear_names.h"

#include <algorithm>
#include <string>

#include "client/files/words.h"

namespace quantd::checkpoint {
namespace {

// Names of linear layers that compute queries, keys and values together.
constexpr Words kFusedAttention = R"(
    qkv_proj query_key_value c_attn Wqkv wqkv W_pack qkv linear_qkv att_proj
    q_k_v_proj)";
// Names of further linear layers: in attention, in feed-forward layers and
// experts, and in mixers (linear attention, state spaces, short convolutions).
constexpr Words kLinear = R"(
    q_proj k_proj v_proj o_proj q k v o wq wk wv wo Wo query key value
    query_proj key_proj value_proj q_lin k_lin v_lin out_lin q_attn c_proj
    attn_out out_proj q_a_proj q_b_proj kv_a_proj_with_mqa kv_a_proj kv_b_proj
    dense proj linear_proj to_q to_k to_v to_out

    gate_proj up_proj down_proj gate_up_proj up_gate_proj w1 w2 w3 w13 fc1 fc2
    fc11 fc12 fc_in fc_out c_fc c_fc_0 c_fc_1 dense_h_to_4h dense_4h_to_h wi
    wi_0 wi_1 Wi lin1 lin2 linear_fc1 linear_fc2 ff_proj ff_out ffn ffn_output
    input_linear output_linear

    in_proj in_proj_qkvz in_proj_qkv in_proj_z)";

// Words in the names of modules that contain linear layers.
constexpr Words kHolderWords =
    "attn attention Attention mlp ffn feed Dense expert moe mixer mamba ssm";
// Whole names of further modules that contain linear layers: BERT's, lists of
// layers, short convolutions.
constexpr Words kHolders = R"(
    ff self output intermediate layers layer h blocks block conv att
    albert_layers temporal_block attentions)";

constexpr Words kMoreOfDiffusion = R"(
    to_qkv to_added_qkv to_add_out add_q_proj add_k_proj add_v_proj net
    to_qkv_mlp_proj proj_mlp proj_out linear1 linear2 linear_1 linear_2
    linear_3 linear_in linear_out img_mlp txt_mlp mlp to_query to_key to_value
    in_layer out_layer out out_projection img_attn_qkv img_attn_proj
    txt_attn_qkv txt_attn_proj self_attn_qkv self_attn_proj)";
constexpr Words kDiffusionLists = R"(
    blocks layers double_blocks single_blocks joint_blocks double_layers
    single_layers double_stream_blocks single_stream_blocks input_blocks
    middle_block output_blocks down_blocks up_blocks attentions)";
constexpr Words kDiffusionPrefixes = R"(
    model diffusion_model transformer net unet model.diffusion_model
    mid_block)";

// Weights that transformers 5 splits, from its conversion_mapping.py.
struct SplitWeight {
  std::string_view type;
  std::string_view end;     // of the module's name
  std::string_view holder;  // replaces `end`, before each of `leaves`
  Words leaves;
};
constexpr SplitWeight kSplit[] = {
    {"hrm_text", "attn.gqkv_proj", "self_attn.",
     "gate_proj q_proj k_proj v_proj"},
    {"hrm_text", "mlp.gate_up_proj", "mlp.", "gate_proj up_proj"},
    {"nomic_bert", "attn.Wqkv", "self_attn.", "q_proj k_proj v_proj"},
    {"gte", "attention.qkv_proj", "self_attn.", "q_proj k_proj v_proj"},
    {"gte", "mlp.up_gate_proj", "mlp.", "up_proj gate_proj"},
    {"jina_embeddings_v3", "mixer.Wqkv", "self_attn.", "q_proj k_proj v_proj"}};

// Index of the part that names the module. Skips trailing numbers and the inner
// module of a wrapped layer.
size_t PlaceOfName(const NameParts& parts) {
  size_t at = parts.size() - 1;
  while (at > 0 && (IsIndex(parts[at]) || parts[at] == "base_layer" ||
                    (parts[at] == "linear" && IsLinearName(parts[at - 1])))) {
    --at;
  }
  return at;
}

// Two tensors by which ComfyUI recognizes a model of diffusers, from its
// model_detection.py.
struct Signature {
  const char* first;
  const char* second;
};
constexpr Signature kRenamed[] = {
    // AuraFlow
    {"joint_transformer_blocks.0.attn.add_k_proj.weight",
     "joint_transformer_blocks.0.attn.add_k_proj.weight"},
    // Flux
    {"x_embedder.weight", "transformer_blocks.0.attn.to_q.weight"},
    // Stable Diffusion 3
    {"pos_embed.proj.weight", "transformer_blocks.0.attn.add_q_proj.weight"},
    // PixArt
    {"pos_embed.proj.weight",
     "adaln_single.emb.timestep_embedder.linear_1.weight"},
    // Z-Image
    {"noise_refiner.0.attention.to_q.weight",
     "noise_refiner.0.attention.norm_k.weight"},
    // UNets
    {"conv_in.weight", "time_embedding.linear_1.weight"}};

}  // namespace

bool IsFusedAttention(std::string_view leaf) {
  return Has(kFusedAttention, leaf);
}

bool IsLinearName(std::string_view leaf) {
  return Has(kLinear, leaf) || IsFusedAttention(leaf);
}

bool IsSplitByEngines(std::string_view leaf) { return leaf == "kv_b_proj"; }

bool IsReorderedByEngines(std::string_view model_type, std::string_view leaf) {
  return model_type.starts_with("llama4") &&
         (leaf == "q_proj" || leaf == "k_proj");
}

std::vector<std::string> SplitParts(std::string_view model_type,
                                    std::string_view module) {
  std::vector<std::string> parts;
  for (const SplitWeight& split : kSplit) {
    if (split.type != model_type || !module.ends_with(split.end)) continue;
    std::string above(module.substr(0, module.size() - split.end.size()));
    above += split.holder;
    for (const std::string_view leaf : split.leaves) {
      parts.push_back(above + std::string(leaf));
    }
  }
  return parts;
}

bool IsLanguageLinear(const NameParts& parts) {
  const size_t at = PlaceOfName(parts);
  const auto end = parts.begin() + at;
  const auto layer = std::find_if(parts.begin(), end, IsIndex);
  // The attention must be inside a numbered layer. A numbered list inside
  // attention or an MLP belongs to another kind of model.
  if (!IsLinearName(parts[at]) || layer == end ||
      std::any_of(parts.begin(), layer, [](std::string_view part) {
        return HoldsOneOf(part, Words("attn attention mlp ffn"));
      })) {
    return false;
  }
  size_t above = at - 1;
  while (above > 0 && IsIndex(parts[above])) --above;
  return Has(kHolders, parts[above]) || HoldsOneOf(parts[above], kHolderWords);
}

bool IsDiffusionLinear(const NameParts& parts) {
  const std::string_view name = parts[PlaceOfName(parts)];
  return IsLinearName(name) || Has(kMoreOfDiffusion, name);
}

bool IsInDiffusionBlock(const NameParts& parts) {
  std::string before;
  for (size_t i = 0; i + 2 < parts.size(); ++i) {
    if (IsIndex(parts[i + 1])) {
      return (before.empty() || Has(kDiffusionPrefixes, before)) &&
             (Has(kDiffusionLists, parts[i]) ||
              parts[i].ends_with("transformer_blocks"));
    }
    before += before.empty() ? "" : ".";
    before += parts[i];
  }
  return false;
}

bool IsRenamedByComfy(const Model& model) {
  return std::ranges::any_of(kRenamed, [&](const Signature& s) {
    return model.Find(s.first) != nullptr && model.Find(s.second) != nullptr;
  });
}

bool IsMeasuredByComfy(std::string_view module) {
  return module.ends_with(".attn2.to_k");
}

}  // namespace quantd::checkpoint
