#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "client/checkpoint/lint/rules.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// What quantizing, or saving once more, may change; what is of training; and
// words of which a library writes a number for one.
constexpr std::string_view kFree[] = {"quantization_config",
                                      "compression_config",
                                      "transformers_version",
                                      "dtype",
                                      "torch_dtype",
                                      "_name_or_path",
                                      "_commit_hash",
                                      "_attn_implementation",
                                      "_attn_implementation_autoset",
                                      "auto_map",
                                      "use_cache",
                                      "torchscript",
                                      "pad_token_id",
                                      "initializer_range",
                                      "attention_dropout",
                                      "output_router_logits",
                                      "router_aux_loss_coef",
                                      "pretraining_tp"};
// Those without which nobody knows what model it is, or without which it
// computes something else: libraries take a default.
constexpr std::string_view kNeeded[] = {"model_type",
                                        "architectures",
                                        "rope_theta",
                                        "rope_type",
                                        "factor",
                                        "partial_rotary_factor",
                                        "rms_norm_eps",
                                        "layer_norm_eps",
                                        "layer_norm_epsilon",
                                        "norm_eps",
                                        "norm_epsilon",
                                        "hidden_act",
                                        "hidden_activation",
                                        "head_dim",
                                        "num_key_value_heads",
                                        "num_experts_per_tok",
                                        "norm_topk_prob",
                                        "routed_scaling_factor",
                                        "sliding_window",
                                        "attn_logit_softcapping",
                                        "final_logit_softcapping",
                                        "query_pre_attn_scalar"};
// Newer files have together what older ones have apart.
constexpr std::string_view kRope[] = {"rope_parameters", "rope_scaling"};

template <size_t kCount>
bool Has(const std::string_view (&list)[kCount], std::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

using Values = std::map<std::string, Json>;

void Flatten(const Json& object, const std::string& path, Values* values) {
  for (const auto& [key, value] : object.items()) {
    if (Has(kFree, key) || value.is_null()) continue;
    if (value.is_object()) {
      Flatten(value, Has(kRope, key) ? path : path + key + ".", values);
    } else {
      // The older word for the same.
      const bool type = key == "type" && !object.contains("rope_type");
      (*values)[path + (type ? "rope_type" : key)] = value;
    }
  }
}

// One of a list is that one.
bool IsSame(const Json& a, const Json& b) {
  if (a == b) return true;
  if (a.is_array() && a.size() == 1 && !b.is_array()) return a[0] == b;
  return b.is_array() && b.size() == 1 && !a.is_array() && b[0] == a;
}

}  // namespace

void LintConfigAgainst(const Model& original, const LintedModel& linted,
                       Findings* findings) {
  if (!original.has_config() || !linted.model.has_config()) return;
  Values there;
  Values here;
  Flatten(original.config(), "", &there);
  Flatten(linted.model.config(), "", &here);
  for (const auto& [key, value] : there) {
    const auto found = here.find(key);
    if (found == here.end()) {
      const std::string_view word =
          std::string_view(key).substr(key.rfind('.') + 1);
      if (!Has(kNeeded, word) || value == "default") continue;
      findings->Add("config-original", kConfigFile,
                    fmt::format("no \"{}\", which is {} in the original's", key,
                                Shown(&value)),
                    key);
      continue;
    }
    // A head that was quantized is no longer that of the embeddings.
    const bool untied = key == "tie_word_embeddings" &&
                        found->second == false &&
                        linted.model.Find("lm_head.weight") != nullptr;
    if (untied || IsSame(value, found->second)) continue;
    findings->Add("config-original", kConfigFile,
                  fmt::format("\"{}\" is {}, and {} in the original's", key,
                              Shown(&found->second), Shown(&value)),
                  key);
  }
  // Positions that are scaled where they were not.
  for (const auto& [key, value] : here) {
    if (there.count(key) > 0 || !key.ends_with("rope_type") ||
        value == "default") {
      continue;
    }
    findings->Add("config-original", kConfigFile,
                  fmt::format("\"{}\" is {}, and the original has none", key,
                              Shown(&value)),
                  key);
  }
}

}  // namespace quantd::checkpoint
