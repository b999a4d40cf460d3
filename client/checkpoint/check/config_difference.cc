#include "client/checkpoint/check/config_difference.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "client/checkpoint/check/declared.h"
#include "client/checkpoint/pattern.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// Keys that may differ: quantizing or saving again changes them, or only
// training uses them.
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
// Keys that the model needs if the original has them. Without them libraries do
// not know the model, or use a default that may be wrong.
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
// Objects with the settings of rotary embeddings. Newer files have
// rope_parameters, which includes rope_theta. Older files have rope_scaling.
constexpr std::string_view kRope[] = {"rope_parameters", "rope_scaling"};

struct ConfigValue {
  Json value;
  Json::json_pointer place;
};
using ConfigValues = std::map<std::string, ConfigValue>;

// Collects all values below `object`. Members of the objects in kRope count as
// members of the object around them.
void Flatten(const Json& object, const std::string& path,
             const Json::json_pointer& place, ConfigValues* values) {
  for (const auto& [key, value] : object.items()) {
    if (Has(kFree, key) || value.is_null()) continue;
    if (value.is_object()) {
      Flatten(value, Has(kRope, key) ? path : path + key + ".", place / key,
              values);
    } else {
      // "type" is the older name of "rope_type".
      const bool type = key == "type" && !object.contains("rope_type");
      (*values)[path + (type ? "rope_type" : key)] = {value, place / key};
    }
  }
}

// The default of rope_theta.
double UsualBase(std::string_view model_type) {
  if (model_type.starts_with("gemma3") || model_type == "mixtral") return 1e6;
  if (model_type.starts_with("llama4")) return 5e5;
  return model_type == "gpt_oss" ? 150000 : 10000;
}

// Whether the values are equal. A list of one element equals that element.
bool IsSameValue(const Json& a, const Json& b) {
  if (a == b) return true;
  if (a.is_array() && a.size() == 1 && !b.is_array()) return a[0] == b;
  return b.is_array() && b.size() == 1 && !a.is_array() && b[0] == a;
}

class Comparison {
 public:
  Comparison(const Model& original, const Model& model)
      : original_(original), model_(model) {
    Flatten(original.config(), "", Json::json_pointer(), &there_);
    Flatten(model.config(), "", Json::json_pointer(), &here_);
  }

  std::vector<ConfigDifference> Make() {
    for (const auto& [key, one] : there_) {
      if (key == kTiedHead) continue;
      const auto found = here_.find(key);
      if (found == here_.end()) {
        const std::string_view word =
            std::string_view(key).substr(key.rfind('.') + 1);
        if (Has(kNeeded, word) && one.value != "default") Lacks(key, one);
      } else if (!IsSameValue(one.value, found->second.value)) {
        Differs(key, one, found->second);
      }
    }
    // Reports rotary settings that only the model has, if they differ from the
    // default that the original uses.
    const bool says_base = std::any_of(
        there_.begin(), there_.end(),
        [](const auto& entry) { return entry.first.ends_with("rope_theta"); });
    for (const auto& [key, one] : here_) {
      if (there_.count(key) > 0) continue;
      if ((key.ends_with("rope_type") && one.value != "default") ||
          (key.ends_with("rope_theta") && !says_base &&
           one.value != UsualBase(model_.model_type()))) {
        HasMore(key, one);
      }
    }
    CompareHeads();
    return std::move(found_);
  }

 private:
  void Lacks(const std::string& key, const ConfigValue& one) {
    found_.push_back({key,
                      fmt::format("\"{}\" is missing; in the original it is {}",
                                  key, Shown(&one.value)),
                      PlaceFor(one.place), one.value});
  }

  void Differs(const std::string& key, const ConfigValue& there,
               const ConfigValue& here) {
    found_.push_back({key,
                      fmt::format("\"{}\" is {}, but {} in the original", key,
                                  Shown(&here.value), Shown(&there.value)),
                      here.place, there.value});
  }

  void HasMore(const std::string& key, const ConfigValue& one) {
    Json::json_pointer place = one.place;
    if (Has(kRope, place.parent_pointer().empty()
                       ? ""
                       : place.parent_pointer().back()) &&
        !original_.config().contains(place.parent_pointer())) {
      place.pop_back();
    }
    found_.push_back(
        {key,
         fmt::format("\"{}\" is {}, but the original does not have it", key,
                     Shown(&one.value)),
         place, std::nullopt});
  }

  // The path in the model's file for a value at `place` in the original's file.
  Json::json_pointer PlaceFor(const Json::json_pointer& place) const {
    const Json::json_pointer parent = place.parent_pointer();
    if (parent.empty() || !Has(kRope, parent.back())) return place;
    for (const std::string_view other : kRope) {
      const auto own = parent.parent_pointer() / std::string(other);
      if (model_.config().contains(own) && model_.config()[own].is_object()) {
        return own / place.back();
      }
    }
    return place;
  }

  // Compares tie_word_embeddings, which may be missing if it is the default of
  // the model's type.
  void CompareHeads() {
    const auto there = there_.find(kTiedHead);
    const auto here = here_.find(kTiedHead);
    const auto tied = IsHeadTied(model_.config(), model_.model_type());
    if (there != there_.end() && here == here_.end()) {
      const bool said = there->second.value == true;
      if (tied != said) Lacks(kTiedHead, there->second);
      return;
    }
    if (here == here_.end()) return;
    const bool own = here->second.value == true;
    // Quantizing the head separates it from the embeddings.
    if (!own && model_.Find("lm_head.weight") != nullptr) return;
    if (there != there_.end()) {
      if (!IsSameValue(there->second.value, here->second.value)) {
        Differs(kTiedHead, there->second, here->second);
      }
      return;
    }
    const auto was = IsHeadTied(original_.config(), original_.model_type());
    if (was && *was != own) {
      found_.push_back(
          {kTiedHead,
           fmt::format("\"{}\" is {}, but {} by default in the original",
                       kTiedHead, own, *was),
           here->second.place, *was});
    }
  }

  const Model& original_;
  const Model& model_;
  ConfigValues there_;
  ConfigValues here_;
  std::vector<ConfigDifference> found_;
};

}  // namespace

std::vector<ConfigDifference> DifferencesOf(const Model& original,
                                            const Model& model) {
  if (!original.has_config() || !model.has_config()) return {};
  return Comparison(original, model).Make();
}

}  // namespace quantd::checkpoint
