#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "client/checkpoint/architecture.h"
#include "client/checkpoint/check/guess.h"
#include "client/checkpoint/check/rules.h"
#include "client/checkpoint/stacked.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

class ConfigRules {
 public:
  ConfigRules(const LintedModel& linted, Findings* findings)
      : model_(linted.model),
        stored_(linted.stored),
        architecture_(linted.architecture),
        findings_(*findings) {}

  const Json* Quantization() const {
    const auto found = model_.config().find("quantization_config");
    return found == model_.config().end() || !found->is_object() ? nullptr
                                                                 : &*found;
  }

  void CheckConfig() {
    if (stored_.weights.empty() || model_.single_file()) return;
    const StoredWeight& first = stored_.weights.front();
    const Dialect configured = ConfiguredDialect(model_.config());
    for (const StoredWeight& w : stored_.weights) {
      if (!IsOfAnother(w, configured)) continue;
      Find("dialect", w.module,
           fmt::format("named as {} does, and config.json is for {}",
                       Name(w.layout->dialect), Name(configured)));
    }
    const Dialect dialect = first.layout->dialect;
    const Json* q = Quantization();
    if (dialect == Dialect::kComfy) return;
    if (q == nullptr) {
      Find("config", "config.json",
           "no quantization_config: engines take the codes for weights");
      return;
    }
    const auto needs = [&](const Json& json, const char* file,
                           std::initializer_list<const char*> keys) {
      for (const char* key : keys) {
        if (!json.contains(key)) {
          Find("config", file, fmt::format("no \"{}\"", key));
        }
      }
    };
    const auto measured = std::any_of(
        stored_.weights.begin(), stored_.weights.end(), [](const auto& w) {
          return w.part(PartSource::kInputScale) != nullptr;
        });
    const auto no_scale = [&](const std::string& label) {
      if (measured) return;
      Find("no-input-scale", first.module,
           fmt::format("labelled {}, and no weight has a scale of activations",
                       label));
    };
    switch (dialect) {
      case Dialect::kModelOpt: {
        const auto own =
            ReadJsonObject(model_.path() + "/hf_quant_config.json");
        if (!own.ok()) {
          Find("config", "hf_quant_config.json", "missing or no JSON");
          return;
        }
        const Json quantization = own->value("quantization", Json::object());
        needs(quantization, "hf_quant_config.json",
              {"quant_algo", "kv_cache_quant_algo", "exclude_modules"});
        const Json algo = quantization.value("quant_algo", Json());
        if (first.layout->format == WeightFormat::kNvfp4) {
          needs(quantization, "hf_quant_config.json", {"group_size"});
        }
        if (algo == "NVFP4" || algo == "FP8") {
          no_scale(algo.get<std::string>());
        }
        break;
      }
      case Dialect::kCompressedTensors: {
        needs(*q, "config.json", {"config_groups", "format", "ignore"});
        const Json groups = q->value("config_groups", Json::object());
        for (const auto& [name, group] : groups.items()) {
          const Json inputs = group.is_object()
                                  ? group.value("input_activations", Json())
                                  : Json();
          if (inputs.is_object() &&
              inputs.value("dynamic", Json(false)) != true) {
            no_scale(name);
          }
        }
        break;
      }
      case Dialect::kDeepSeek:
        needs(*q, "config.json", {"fmt", "weight_block_size"});
        break;
      case Dialect::kGptOss:
      case Dialect::kComfy:
      case Dialect::kNone:
        break;
    }
  }

  // Modules that the configuration says to be as they were.
  std::set<std::string> Ignored() const {
    std::set<std::string> names;
    const Json* q = Quantization();
    if (q == nullptr) return names;
    for (const char* key : {"ignore", "modules_to_not_convert"}) {
      const auto list = q->find(key);
      if (list == q->end() || !list->is_array()) continue;
      for (const Json& name : *list) {
        if (name.is_string()) names.insert(name.get<std::string>());
      }
    }
    return names;
  }

  void CheckModules() {
    if (stored_.weights.empty()) return;
    const std::set<std::string> ignored = Ignored();
    for (const StoredWeight& w : stored_.weights) {
      if (ignored.count(w.module) > 0) {
        Find("ignore-list", w.module,
             "quantized, and on the list of those "
             "that are not");
      }
    }
    const StoredWeight& first = stored_.weights.front();
    for (const ModelTensor& t : model_.tensors()) {
      if (IsStacked(t) && safetensors::BitsOf(t.stored.dtype) >= 16 &&
          ignored.count(std::string(ModuleOf(t.name()))) == 0) {
        Find("stacked-experts", t.name(),
             fmt::format("{} experts are {}", t.stored.shape[0],
                         t.stored.dtype));
      }
      // Engines expect every linear layer quantized that is on no list.
      const std::string module(ModuleOf(t.name()));
      if (first.layout->dialect == Dialect::kCompressedTensors &&
          t.stored.shape.size() == 2 && t.name().ends_with(".weight") &&
          safetensors::BitsOf(t.stored.dtype) >= 16 && Quantization() &&
          ignored.empty() && architecture_.RoleOf(module) == Role::kLinear) {
        Find("ignore-list", module,
             "not quantized, and the list of those that are not is empty");
      }
    }
  }

 private:
  void Find(std::string_view rule, const std::string& where,
            const std::string& text) {
    findings_.Add(rule, where, text);
  }

  const Model& model_;
  const StoredModel& stored_;
  const Architecture& architecture_;
  Findings& findings_;
};

}  // namespace

void LintConfig(const LintedModel& linted, Findings* findings) {
  ConfigRules rules(linted, findings);
  rules.CheckConfig();
  rules.CheckModules();
}

}  // namespace quantd::checkpoint
