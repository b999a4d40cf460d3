#include "client/checkpoint/anatomy/linear_names.h"

#include <algorithm>
#include <string>

#include "client/checkpoint/pattern.h"

namespace quantd::checkpoint {
namespace {

// Names of linear layers that compute queries, keys and values together.
// IsListed() needs a space before and after each word.
constexpr std::string_view kFusedAttention =
    " qkv_proj query_key_value c_attn Wqkv wqkv W_pack qkv linear_qkv"
    " att_proj q_k_v_proj ";
// Names of further linear layers.
constexpr std::string_view kLinear =
    // Attention.
    " q_proj k_proj v_proj o_proj q k v o wq wk wv wo Wo query key value"
    " query_proj key_proj value_proj q_lin k_lin v_lin out_lin q_attn c_proj"
    " attn_out out_proj q_a_proj q_b_proj kv_a_proj_with_mqa kv_a_proj"
    " kv_b_proj dense proj linear_proj to_q to_k to_v to_out "
    // Feed-forward layers and experts.
    " gate_proj up_proj down_proj gate_up_proj up_gate_proj w1 w2 w3 w13 fc1"
    " fc2 fc11 fc12 fc_in fc_out c_fc c_fc_0 c_fc_1 dense_h_to_4h dense_4h_to_h"
    " wi wi_0 wi_1 Wi lin1 lin2 linear_fc1 linear_fc2 ff_proj ff_out ffn"
    " ffn_output input_linear output_linear "
    // Mixers: linear attention, state spaces, short convolutions.
    " in_proj in_proj_qkvz in_proj_qkv in_proj_z ";

// Words in the names of modules that contain linear layers.
constexpr std::string_view kHolderWords[] = {
    "attn",  "attention", "Attention", "mlp",   "ffn",   "feed",
    "Dense", "expert",    "moe",       "mixer", "mamba", "ssm"};
// Whole names of further modules that contain linear layers: BERT's, lists of
// layers, short convolutions.
constexpr std::string_view kHolders =
    " ff self output intermediate layers layer h blocks block conv att"
    " albert_layers temporal_block attentions ";

constexpr std::string_view kMoreOfDiffusion =
    " to_qkv to_added_qkv to_add_out add_q_proj add_k_proj add_v_proj net"
    " to_qkv_mlp_proj proj_mlp proj_out linear1 linear2 linear_1 linear_2"
    " linear_3 linear_in linear_out img_mlp txt_mlp mlp to_query to_key"
    " to_value in_layer out_layer out out_projection img_attn_qkv img_attn_proj"
    " txt_attn_qkv txt_attn_proj self_attn_qkv self_attn_proj ";
constexpr std::string_view kDiffusionLists =
    " blocks layers double_blocks single_blocks joint_blocks double_layers"
    " single_layers double_stream_blocks single_stream_blocks input_blocks"
    " middle_block output_blocks down_blocks up_blocks attentions ";
constexpr std::string_view kDiffusionPrefixes =
    "  model diffusion_model transformer net unet model.diffusion_model"
    " mid_block ";

// Weights that transformers 5 splits, from its conversion_mapping.py.
struct SplitWeight {
  std::string_view type;
  std::string_view end;     // of the module's name
  std::string_view holder;  // replaces `end`, before each of `leaves`
  std::string_view leaves;
};
constexpr SplitWeight kSplit[] = {
    {"hrm_text", "attn.gqkv_proj", "self_attn.",
     "gate_proj q_proj k_proj v_proj"},
    {"hrm_text", "mlp.gate_up_proj", "mlp.", "gate_proj up_proj"},
    {"nomic_bert", "attn.Wqkv", "self_attn.", "q_proj k_proj v_proj"},
    {"gte", "attention.qkv_proj", "self_attn.", "q_proj k_proj v_proj"},
    {"gte", "mlp.up_gate_proj", "mlp.", "up_proj gate_proj"},
    {"jina_embeddings_v3", "mixer.Wqkv", "self_attn.", "q_proj k_proj v_proj"}};

bool IsListed(std::string_view words, std::string_view word) {
  return words.find(' ' + std::string(word) + ' ') != std::string_view::npos;
}

bool HasWord(std::string_view text, std::string_view word) {
  return text.find(word) != std::string_view::npos;
}

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

}  // namespace

bool IsIndex(std::string_view part) {
  return !part.empty() && part.size() < 10 &&
         std::all_of(part.begin(), part.end(),
                     [](char c) { return c >= '0' && c <= '9'; });
}

bool IsFusedAttention(std::string_view leaf) {
  return IsListed(kFusedAttention, leaf);
}

bool IsLinearName(std::string_view leaf) {
  return IsListed(kLinear, leaf) || IsFusedAttention(leaf);
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
    for (const std::string_view leaf : Split(split.leaves, ' ')) {
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
        return HasWord(part, "attn") || HasWord(part, "attention") ||
               HasWord(part, "mlp") || HasWord(part, "ffn");
      })) {
    return false;
  }
  size_t above = at - 1;
  while (above > 0 && IsIndex(parts[above])) --above;
  return IsListed(kHolders, parts[above]) ||
         std::any_of(std::begin(kHolderWords), std::end(kHolderWords),
                     [&](std::string_view word) {
                       return HasWord(parts[above], word);
                     });
}

bool IsDiffusionLinear(const NameParts& parts) {
  const std::string_view name = parts[PlaceOfName(parts)];
  return IsLinearName(name) || IsListed(kMoreOfDiffusion, name);
}

bool IsInDiffusionBlock(const NameParts& parts) {
  std::string before;
  for (size_t i = 0; i + 2 < parts.size(); ++i) {
    if (IsIndex(parts[i + 1])) {
      return IsListed(kDiffusionPrefixes, before) &&
             (IsListed(kDiffusionLists, parts[i]) ||
              parts[i].ends_with("transformer_blocks"));
    }
    before += before.empty() ? "" : ".";
    before += parts[i];
  }
  return false;
}

}  // namespace quantd::checkpoint
