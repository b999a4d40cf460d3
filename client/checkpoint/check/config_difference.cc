#include "client/checkpoint/check/config_difference.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "client/checkpoint/anatomy/config_facts.h"
#include "client/checkpoint/check/declared.h"
#include "client/files/words.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// Keys that a conversion writes, besides the descriptions of quantizations.
constexpr std::string_view kWritten[] = {"transformers_version",
                                         "_diffusers_version", "dtype",
                                         "torch_dtype", "_name_or_path"};
// Keys that libraries change when they save a configuration again, and that do
// not change what a forward pass computes.
constexpr Words kUnused = R"(
    _commit_hash _attn_implementation _attn_implementation_autoset auto_map
    use_cache return_dict torchscript pad_token_id initializer_range
    attention_dropout output_router_logits router_aux_loss_coef pretraining_tp
    id2label label2id max_length temperature top_k top_p typical_p
    repetition_penalty length_penalty num_beams num_beam_groups
    num_return_sequences)";
// Objects with the settings of rotary embeddings. Newer files have
// rope_parameters, which includes rope_theta, some once for each kind of layer.
// Older files have rope_scaling.
constexpr Words kRope = "rope_parameters rope_scaling full_attention";

struct ConfigValue {
  Json value;
  Json::json_pointer place;
};
using ConfigValues = std::map<std::string, ConfigValue>;

// Whether a library leaves out such a value if it is the default.
bool IsEmpty(const Json& value) {
  return value.empty() || value == false || value == 0 || value == "";
}

// Whether the values are equal: 1 equals 1.0, NaN equals NaN, and a list of one
// element equals that element.
bool IsSameValue(const Json& a, const Json& b) {
  if (a == b || PythonJsonText(a, -1) == PythonJsonText(b, -1)) return true;
  if (a.is_array() && a.size() == 1 && !b.is_array()) return a[0] == b;
  return b.is_array() && b.size() == 1 && !a.is_array() && b[0] == a;
}

class Comparison {
 public:
  Comparison(const Model& original, const Model& model)
      : original_(original),
        model_(model),
        saved_again_(IsSavedAgain(original, model)) {
    Flatten(original.config(), &there_);
    Flatten(model.config(), &here_);
  }

  std::vector<ConfigDifference> Make() {
    // Removals come first, so that repair does not remove what it restored.
    for (const auto& [key, own] : here_) {
      if (there_.count(key) == 0) Add(key, nullptr, &own);
    }
    for (const auto& [key, was] : there_) {
      auto own = here_.find(key);
      // Newer libraries move these settings.
      if (own == here_.end() && saved_again_) {
        own = here_.find("text_config." + key);
      }
      if (own == here_.end()) {
        Add(key, &was, nullptr);
      } else if (!IsSameValue(was.value, own->second.value)) {
        Add(key, &was, &own->second);
      }
    }
    return std::move(found_);
  }

 private:
  void Flatten(Json config, ConfigValues* values) const {
    EraseQuantizations(&config);
    Flatten(config, "", Json::json_pointer(), values);
  }

  // Collects all values below `object`. Members of the objects in kRope count
  // as members of the object around them.
  void Flatten(const Json& object, const std::string& path,
               const Json::json_pointer& place, ConfigValues* values) const {
    for (const auto& [key, value] : object.items()) {
      const bool unused =
          Has(kUnused, key) || (key == kTiedHead && !path.empty()) ||
          (key == "sliding_window" &&
           Shown(Member(&object, "use_sliding_window")) == "false");
      if (Has(kWritten, key) || (saved_again_ && unused)) continue;
      if (value.is_object() && !value.empty()) {
        Flatten(value, Has(kRope, key) ? path : path + key + ".", place / key,
                values);
        continue;
      }
      const bool rope = !place.empty() && Has(kRope, place.back());
      const std::string name = path + (rope && key == "type" ? "rope_type"
                                       : key == "rope_local_base_freq"
                                           ? "sliding_attention.rope_theta"
                                           : key);
      // transformers calls it "default" since it has rope_type.
      ConfigValue one = {rope && value == "mrope" ? "default" : value,
                         place / key};
      const auto [at, fresh] = values->try_emplace(name, one);
      if (fresh || IsSameValue(at->second.value, one.value)) continue;
      (*values)[one.place.to_string()] = std::move(one);
    }
  }

  // Adds a difference. Either value is nullptr if it is missing.
  void Add(const std::string& key, const ConfigValue* was,
           const ConfigValue* own) {
    if (key == kTiedHead && MayHeadsDiffer()) return;
    const auto shown = [](const ConfigValue* v) {
      return v == nullptr ? "missing" : Shown(v->value);
    };
    Json::json_pointer place = own ? own->place : PlaceFor(was->place);
    const Json::json_pointer parent = place.parent_pointer();
    if (was == nullptr && !parent.empty() && Has(kRope, parent.back()) &&
        !original_.config().contains(parent)) {
      place = parent;
    }
    found_.push_back(
        {key,
         fmt::format("\"{}\" is {}, but {} in the original", key, shown(own),
                     shown(was)),
         place, was ? std::optional<Json>(was->value) : std::nullopt,
         saved_again_ && (was == nullptr || was->value.is_null() ||
                          (own == nullptr && IsEmpty(was->value)))});
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

  // Whether tie_word_embeddings may differ: it is missing where it is the
  // default of the model's type, or quantizing the head separated it from the
  // embeddings.
  bool MayHeadsDiffer() const {
    const auto was = IsHeadTied(original_.config(), original_.model_type());
    const auto own = IsHeadTied(model_.config(), model_.model_type());
    return own && (own == was || (!*own && model_.Find("lm_head.weight")));
  }

  const Model& original_;
  const Model& model_;
  const bool saved_again_;
  ConfigValues there_;
  ConfigValues here_;
  std::vector<ConfigDifference> found_;
};

}  // namespace

bool IsSavedAgain(const Model& original, const Model& model) {
  for (const char* key : {"transformers_version", "_diffusers_version"}) {
    const Json* own = Member(&model.config(), key);
    const Json* was = Member(&original.config(), key);
    if (own != nullptr && (was == nullptr || *was != *own)) return true;
  }
  return false;
}

std::vector<ConfigDifference> DifferencesOf(const Model& original,
                                            const Model& model) {
  if (!original.has_config() || !model.has_config()) return {};
  return Comparison(original, model).Make();
}

}  // namespace quantd::checkpoint
