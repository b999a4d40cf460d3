#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "client/checkpoint/check/layer_names.h"
#include "client/checkpoint/check/shape_table.h"
#include "client/checkpoint/lint/rules.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

constexpr std::string_view kLayers = "model.layers";

// Whether the model is all of such a type, and no tower of another's.
bool IsWholeDecoder(const LintedModel& linted) {
  const Json* names = Member(&linted.model.config(), "architectures");
  const bool any = names != nullptr && names->is_array() && !names->empty();
  return IsPlainDecoder(linted.model.model_type()) &&
         (!any ||
          TextOf(&names->front()).value_or("").ends_with("ForCausalLM"));
}

class NameRules {
 public:
  NameRules(const LintedModel& linted, Findings* findings)
      : linted_(linted), findings_(*findings) {}

  // Names that lack a prefix, or have one twice.
  void CheckPlaces() {
    for (const ModelTensor& t : linted_.model.tensors()) {
      const LayerName layer = LayerName::Of(t.name());
      const bool place = layer.stack.ends_with("layers") ||
                         t.name().ends_with("embed_tokens.weight");
      if (!place || layer.stack == kLayers ||
          t.name() == "model.embed_tokens.weight" || IsWrapped(t.name())) {
        continue;
      }
      findings_.Add("wrapped-names", t.name(),
                    fmt::format("engines look for what is of a {} below "
                                "\"model.\"",
                                linted_.model.model_type()),
                    kMisplaced);
    }
  }

  // Modules of another type's layers.
  void CheckModules() {
    const auto known = ModulesOfLayers(linted_.model.model_type());
    if (known.empty()) return;
    for (const ModelTensor& t : linted_.model.tensors()) {
      const LayerName layer = LayerName::Of(t.name());
      if (layer.stack != kLayers) continue;
      const std::string module = layer.rest.substr(0, layer.rest.find('.'));
      if (std::find(known.begin(), known.end(), module) != known.end()) {
        continue;
      }
      findings_.Add("missing-weight", t.name(),
                    fmt::format("layers of a {} have no {}: engines leave it "
                                "out, or raise on it",
                                linted_.model.model_type(), module),
                    "foreign");
    }
  }

  // What tools keep for themselves while they quantize.
  void CheckLeftovers() {
    for (const ModelTensor& t : linted_.model.tensors()) {
      for (const std::string_view state :
           {"weight_quantizer.", "input_quantizer.", "output_quantizer.",
            "k_bmm_quantizer.", "v_bmm_quantizer."}) {
        if (t.name().find(state) == std::string::npos) continue;
        findings_.Add("unknown-part", t.name(),
                      "it is of ModelOpt's calibration, which an export leaves "
                      "out",
                      "leftover");
        break;
      }
    }
  }

 private:
  // Told as such.
  static bool IsWrapped(std::string_view name) {
    return name.find("_orig_mod.") != std::string_view::npos ||
           name.find("module.") != std::string_view::npos ||
           name.find("base_layer.") != std::string_view::npos ||
           name.find(".lora_") != std::string_view::npos;
  }

  const LintedModel& linted_;
  Findings& findings_;
};

}  // namespace

void LintNames(const LintedModel& linted, Findings* findings) {
  NameRules rules(linted, findings);
  rules.CheckLeftovers();
  if (linted.model.single_file() || !IsWholeDecoder(linted)) return;
  rules.CheckPlaces();
  rules.CheckModules();
}

}  // namespace quantd::checkpoint
