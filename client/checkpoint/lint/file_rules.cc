#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "client/checkpoint/check/layer_names.h"
#include "client/checkpoint/check/shape_table.h"
#include "client/checkpoint/lint/rules.h"
#include "client/checkpoint/pattern.h"
#include "client/files/safetensors.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace quantd::checkpoint {
namespace {

constexpr std::string_view kFormats[] = {"pt", "tf", "flax", "mlx"};

class FileRules : public Rules {
 public:
  using Rules::Rules;

  // Loaders that read all files of a directory take one of the two copies.
  void CheckStrays() {
    for (const std::string& name : model_.strays()) {
      // Mistral's own form, which loaders that follow the index skip.
      const bool listed = !model_.index_name().empty();
      if (listed && name.starts_with("consolidated")) continue;
      const auto file = safetensors::File::Open(model_.folder().OpenFile(name));
      if (!file.ok()) continue;
      for (const safetensors::Tensor& t : file->tensors()) {
        if (model_.Find(t.name) == nullptr) continue;
        Find("stray-file", name,
             fmt::format(
                 "not in {}, and it has a {} of its own",
                 listed ? model_.index_name() : model_.shards().front().name,
                 t.name));
        break;
      }
    }
  }

  // transformers loads a file with metadata only if that names a known library.
  void CheckFormats() {
    if (model_.single_file() || linted_.dialect == Dialect::kComfy) {
      return;
    }
    for (const ModelShard& shard : model_.shards()) {
      const safetensors::Metadata& metadata = shard.file.metadata();
      const auto format = metadata.find("format");
      if (metadata.empty() ||
          (format != metadata.end() && Has(kFormats, format->second))) {
        continue;
      }
      Find("file-format", shard.name,
           format == metadata.end()
               ? "its metadata has no \"format\""
               : fmt::format("its metadata has the \"format\" {}, and {} are "
                             "known",
                             Shown(format->second), fmt::join(kFormats, ", ")));
    }
  }

  void CheckNames() {
    for (const ModelTensor& t : model_.tensors()) {
      if (const auto wrapper = WrapperOf(t.name()); !wrapper.empty()) {
        Find("wrapped-names", t.name(),
             fmt::format("its name {} \"{}\"",
                         t.name().starts_with(wrapper) ? "begins with" : "has",
                         wrapper));
      }
      for (const std::string_view adapter : {".lora_", ".base_layer."}) {
        if (t.name().find(adapter) == std::string::npos) continue;
        Find("wrapped-names", t.name(),
             "it is of an adapter that was not merged", "adapter");
        break;
      }
    }
    if (model_.unlisted() > 0) {
      Find("index", model_.index_name(),
           fmt::format("{} tensors of its shards are not in it",
                       model_.unlisted()));
    }
  }
};

constexpr std::string_view kLayers = "model.layers";

// Whether the whole model is of that type, without a tower of another.
bool IsWholeDecoder(const LintedModel& linted) {
  const Json* names = Member(&linted.model.config(), "architectures");
  const bool any = names != nullptr && names->is_array() && !names->empty();
  return IsPlainDecoder(linted.model.model_type()) &&
         (!any ||
          TextOf(&names->front()).value_or("").ends_with("ForCausalLM"));
}

class NameRules : public Rules {
 public:
  using Rules::Rules;

  // Finds names that lack a prefix or have it twice.
  void CheckPlaces() {
    for (const ModelTensor& t : model_.tensors()) {
      const LayerName layer = LayerName::Of(t.name());
      const bool place = layer.stack.ends_with("layers") ||
                         t.name().ends_with("embed_tokens.weight");
      if (!place || layer.stack == kLayers ||
          t.name() == "model.embed_tokens.weight" || IsWrapped(t.name())) {
        continue;
      }
      Find("wrapped-names", t.name(),
           fmt::format("engines look for what is of a {} below "
                       "\"model.\"",
                       model_.model_type()),
           kMisplaced);
    }
  }

  // Finds modules that belong to layers of another type.
  void CheckModules() {
    const auto known = ModulesOfLayers(model_.model_type());
    if (known.empty()) return;
    for (const ModelTensor& t : model_.tensors()) {
      const LayerName layer = LayerName::Of(t.name());
      if (layer.stack != kLayers) continue;
      const std::string module = layer.rest.substr(0, layer.rest.find('.'));
      if (Has(known, module)) continue;
      Find("missing-weight", t.name(),
           fmt::format("layers of a {} have no {}: engines leave it "
                       "out, or raise on it",
                       model_.model_type(), module),
           "foreign");
    }
  }

  // Finds what tools leave behind from quantizing.
  void CheckLeftovers() {
    for (const ModelTensor& t : model_.tensors()) {
      for (const std::string_view state :
           {"weight_quantizer.", "input_quantizer.", "output_quantizer.",
            "k_bmm_quantizer.", "v_bmm_quantizer."}) {
        if (t.name().find(state) == std::string::npos) continue;
        Find("unknown-part", t.name(),
             "it is of ModelOpt's calibration, which an export leaves "
             "out",
             "leftover");
        break;
      }
    }
  }

 private:
  // Reported by another rule.
  static bool IsWrapped(std::string_view name) {
    return name.find("_orig_mod.") != std::string_view::npos ||
           name.find("module.") != std::string_view::npos ||
           name.find("base_layer.") != std::string_view::npos ||
           name.find(".lora_") != std::string_view::npos;
  }
};

}  // namespace

void LintFiles(const LintedModel& linted, Findings* findings) {
  FileRules rules(linted, findings);
  rules.CheckFormats();
  rules.CheckNames();
  rules.CheckStrays();
}

void LintNames(const LintedModel& linted, Findings* findings) {
  NameRules rules(linted, findings);
  rules.CheckLeftovers();
  if (linted.model.single_file() || !IsWholeDecoder(linted)) return;
  rules.CheckPlaces();
  rules.CheckModules();
}

}  // namespace quantd::checkpoint
