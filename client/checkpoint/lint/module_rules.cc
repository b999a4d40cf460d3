#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "client/checkpoint/check/shape_table.h"
#include "client/checkpoint/lint/rules.h"
#include "client/checkpoint/names.h"
#include "client/checkpoint/stacked.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace quantd::checkpoint {
namespace {

// Whether the tensor belongs to a module's codes and is checked with them.
bool IsOfCodes(std::string_view name) {
  for (const std::string_view end :
       {"_scale", "_scale_inv", "_scale_2", "_scales", "_zero_point", ".g_idx",
        "_g_idx", "_packed", "_shape", ".comfy_quant"}) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

class ModuleRules : public Rules {
 public:
  ModuleRules(const LintedModel& linted, Findings* findings)
      : Rules(linted, findings),
        config_(linted.model.config()),
        type_(linted.model.model_type()) {
    for (const StoredWeight& w : linted.stored.weights) {
      Put(w.module + ".weight", {w.rows, w.cols});
      if (w.experts > 1) stacks_[w.module] = w.experts;
    }
    // Modules with unclear parts have other findings. They are not also
    // reported as missing or misshapen.
    std::set<std::string> unclear;
    for (const UnclearWeight& u : linted.stored.unclear) {
      Put(u.module + ".weight", {});
      unclear.insert(u.module);
    }
    for (const ModelTensor& t : linted.model.tensors()) {
      if (linted.parts.count(&t) > 0 || IsOfCodes(t.name()) ||
          unclear.count(std::string(ModuleOf(t.name()))) > 0) {
        continue;
      }
      if (IsStacked(t))
        stacks_[std::string(ModuleOf(t.name()))] = t.stored.shape[0];
      Put(t.name(), t.stored.shape);
    }
  }

  void CheckLayers() {
    for (const auto& [stack, layers] : layers_) {
      if (!architecture_.known() || IsSide(stack)) continue;
      CheckNumbers(stack, layers);
      if (HasUniformLayers(type_)) CheckAlike(stack, layers);
      CheckWhole(stack, layers);
    }
  }

  // Checks that all experts of a layer have the same parts, and that their
  // number is that of config.json.
  void CheckExperts() {
    const auto declared = ExpertsOf(config_);
    // Is a list if the kinds of experts differ in size: ERNIE's experts for
    // images are smaller.
    const Json* sizes = Member(&config_, "moe_intermediate_size");
    const bool kinds = sizes != nullptr && sizes->is_array();
    for (const auto& [parent, experts] : experts_) {
      std::set<std::string> all;
      for (const auto& [number, parts] : experts) {
        for (const auto& [part, shape] : parts) all.insert(part);
      }
      for (const auto& [number, parts] : experts) {
        for (const std::string& part : all) {
          if (parts.count(part) > 0) continue;
          Missing(fmt::format("{}.{}.{}", parent, number, part),
                  "other experts of the layer have it");
        }
        for (const auto& [part, shape] : parts) {
          const auto& other = experts.begin()->second;
          const auto found = other.find(part);
          if (kinds || found == other.end() || found->second == shape ||
              shape.empty() || found->second.empty()) {
            continue;
          }
          Shape(fmt::format("{}.{}.{}", parent, number, part), shape,
                found->second, "as in other experts");
        }
      }
      const auto count = static_cast<int64_t>(experts.size());
      const int64_t last = experts.rbegin()->first + 1;
      if (count != last || (declared && *declared != count)) {
        Find({"missing-weight", "experts"}, parent,
             "it has {} experts, numbered up to {}, but the number "
             "in config.json is {}",
             count, last - 1, declared ? fmt::to_string(*declared) : "nothing");
      }
    }
    for (const auto& [module, count] : stacks_) {
      if (declared && *declared != count) {
        Find("wrong-shape", module,
             "it is a stack of {} experts, but config.json says {}", count,
             *declared);
      }
    }
  }

  void CheckShapes() {
    const ShapeTable table(config_, type_);
    for (const auto& [name, shape] : all_) {
      if (shape.empty()) continue;
      const std::string module(ModuleOf(name));
      CheckBias(name, shape);
      if (architecture_.RoleOf(module) == Role::kVision ||
          architecture_.RoleOf(module) == Role::kMultiToken) {
        continue;
      }
      const auto want = table.Of(name);
      if (want && *want != shape) {
        Shape(name, shape, *want, "according to config.json");
      }
    }
  }

  void CheckEnds() {
    if (!IsPlainDecoder(type_)) return;
    for (const auto& [stack, layers] : layers_) {
      constexpr std::string_view kLayers = "layers";
      if (IsSide(stack) || !stack.ends_with("model.layers")) continue;
      const std::string base = stack.substr(0, stack.size() - kLayers.size());
      for (const char* end : {"embed_tokens.weight", "norm.weight"}) {
        if (all_.count(base + end) == 0) {
          Missing(base + end, "every model of this type has it");
        }
      }
    }
    CheckBiases();
  }

 private:
  using Shapes = std::map<std::string, std::vector<int64_t>>;

  void Put(const std::string& name, std::vector<int64_t> shape) {
    all_[name] = shape;
    const NumberedName layer = LayerOf(name);
    if (layer.number < 0) return;
    const NumberedName expert = ExpertOf(layer.rest);
    if (expert.number < 0) {
      layers_[layer.before][layer.number].insert(
          // Removes ".weight", which the name of a stack may or may not have.
          IsExperts(layer.rest) ? std::string(ModuleOf(layer.rest))
                                : layer.rest);
      return;
    }
    layers_[layer.before][layer.number].insert(expert.before + ".#");
    experts_[ExpertOf(name).before][expert.number][expert.rest] =
        std::move(shape);
  }

  // Checks the bias of a matrix, or of a quantized stack, which must have a row
  // for each expert.
  void CheckBias(const std::string& name, const std::vector<int64_t>& shape) {
    const bool single = name.ends_with(".bias");
    if (!single && !name.ends_with("_bias")) return;
    const std::string owner = name.substr(0, name.size() - 5);
    const auto weight = all_.find(owner + ".weight");
    const auto experts = stacks_.find(owner);
    if (weight == all_.end() || weight->second.size() != 2 ||
        (single ? shape.size() != 1 || architecture_.IsTransposed(owner)
                : experts == stacks_.end())) {
      return;
    }
    std::vector<int64_t> want = {weight->second[0]};
    if (!single) want.insert(want.begin(), experts->second);
    if (shape != want) Shape(name, shape, want, "to fit its weight");
  }

  bool IsSide(const std::string& stack) const {
    return !MayBeLinear(architecture_.RoleOf(stack + ".0.linear"));
  }

  using Layers = std::map<int64_t, std::set<std::string>>;

  void CheckNumbers(const std::string& stack, const Layers& layers) {
    const auto count = ModelNumber(config_, "num_hidden_layers");
    if (!count || (!stack.ends_with("layers") && !stack.ends_with(".h") &&
                   !stack.ends_with("layer"))) {
      return;
    }
    for (int64_t i = 0; i < std::min<int64_t>(*count, 1 << 16); ++i) {
      if (layers.count(i) > 0) continue;
      Find({"missing-weight", "layer"}, fmt::format("{}.{}", stack, i),
           "the layer has no tensors, but config.json says {} layers", *count);
    }
    const int64_t last = layers.rbegin()->first;
    const bool predicts =
        config_.dump(-1, ' ', false, Json::error_handler_t::replace)
            .find("nextn") != std::string::npos;
    const bool head = std::any_of(
        layers.at(last).begin(), layers.at(last).end(), [](const auto& part) {
          return part.find("eh_proj") != std::string::npos;
        });
    if (last >= *count && !predicts && !head) {
      Find({"missing-weight", "more"}, fmt::format("{}.{}", stack, last),
           "it is beyond the {} layers that config.json says: "
           "engines ignore it",
           *count);
    }
  }

  // Finds parts that a single layer lacks, separately for layers with and
  // without experts.
  void CheckAlike(const std::string& stack, const Layers& layers) {
    const auto count = ModelNumber(config_, "num_hidden_layers");
    for (const bool sparse : {false, true}) {
      std::map<std::string, size_t> have;
      std::vector<int64_t> kind;
      for (const auto& [number, parts] : layers) {
        if (HasExperts(parts) != sparse || (count && number >= *count)) {
          continue;
        }
        kind.push_back(number);
        for (const std::string& part : parts) ++have[part];
      }
      for (const auto& [part, times] : have) {
        if (times + 1 != kind.size()) continue;
        for (const int64_t number : kind) {
          if (layers.at(number).count(part) > 0) continue;
          Missing(fmt::format("{}.{}.{}", stack, number, part),
                  "every other layer has it");
        }
      }
    }
  }

  // Finds missing parts that every layer of the model type has.
  void CheckWhole(const std::string& stack, const Layers& layers) {
    for (const auto& [number, parts] : layers) {
      const bool whole = std::ranges::any_of(parts, [](const std::string& p) {
        return p.starts_with("mlp.") || p.starts_with("block_sparse_moe.");
      });
      for (const std::string_view part : PartsOfLayers(type_)) {
        // EAGLE's first layer has the norm in `fc`'s place.
        const bool draft = number == 0 && all_.count("fc.weight") > 0 &&
                           part.starts_with("input_layernorm");
        if (!whole || draft || parts.count(std::string(part)) > 0) continue;
        Missing(fmt::format("{}.{}.{}", stack, number, part),
                "every model of this type has it");
      }
    }
  }

  static bool HasExperts(const std::set<std::string>& parts) {
    return std::ranges::any_of(
        parts, [](const std::string& p) { return IsExperts(p); });
  }

  void CheckBiases() {
    struct Row {
      const char* key;
      const char* leaf;
    };
    for (const Row& row :
         {Row{"attention_bias", ".q_proj"}, Row{"mlp_bias", ".down_proj"}}) {
      const Json* said = Member(&config_, row.key);
      if (said == nullptr || !said->is_boolean() || !SaysBiases(type_)) {
        continue;
      }
      for (const auto& [name, shape] : all_) {
        const std::string leaf = std::string(row.leaf) + ".weight";
        if (!name.ends_with(leaf) || IsExperts(name) ||
            architecture_.RoleOf(ModuleOf(name)) != Role::kLinear) {
          continue;
        }
        const std::string bias = std::string(ModuleOf(name)) + ".bias";
        const bool there = all_.count(bias) > 0;
        if (*said == true && !there) {
          Missing(bias, fmt::format("config.json sets {} to true", row.key));
        } else if (*said == false && there) {
          Find({"missing-weight", "bias"}, bias,
               "it exists, but config.json sets {} to false: "
               "engines ignore it",
               row.key);
        }
      }
    }
  }

  void Missing(const std::string& where, const std::string& why) {
    Find("missing-weight", where, "it is missing, although {}", why);
  }

  void Shape(const std::string& where, const std::vector<int64_t>& there,
             const std::vector<int64_t>& want, const char* why) {
    Find("wrong-shape", where, "its shape is [{}], but should be [{}] {}",
         fmt::join(there, ", "), fmt::join(want, ", "), why);
  }

  const Json& config_;
  const std::string type_;
  Shapes all_;
  std::map<std::string, Layers> layers_;
  std::map<std::string, std::map<int64_t, Shapes>> experts_;
  std::map<std::string, int64_t> stacks_;
};

}  // namespace

void LintModules(const LintedModel& linted, Findings* findings) {
  ModuleRules rules(linted, findings);
  rules.CheckLayers();
  rules.CheckExperts();
  rules.CheckShapes();
  rules.CheckEnds();
}

}  // namespace quantd::checkpoint
