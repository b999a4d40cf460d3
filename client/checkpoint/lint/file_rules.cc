#include <string>
#include <string_view>

#include "client/checkpoint/check/shape_table.h"
#include "client/checkpoint/lint/rules.h"
#include "client/checkpoint/names.h"
#include "client/files/safetensors.h"
#include "client/files/words.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace quantd::checkpoint {
namespace {

constexpr std::string_view kFormats[] = {"pt", "tf", "flax", "mlx"};

// A part of names that reveals a fault.
struct Fragment {
  std::string_view text;
  std::string_view rule;
  std::string_view kind;
  std::string_view said;
};
constexpr char kUnmerged[] = "it belongs to an adapter that was not merged";
constexpr char kLeftover[] =
    "it is a leftover of ModelOpt's calibration, which an export removes";
constexpr Fragment kFragments[] = {
    {".lora_", "wrapped-names", "adapter", kUnmerged},
    {".base_layer.", "wrapped-names", "adapter", kUnmerged},
    {"weight_quantizer.", "unknown-part", "leftover", kLeftover},
    {"input_quantizer.", "unknown-part", "leftover", kLeftover},
    {"output_quantizer.", "unknown-part", "leftover", kLeftover},
    {"k_bmm_quantizer.", "unknown-part", "leftover", kLeftover},
    {"v_bmm_quantizer.", "unknown-part", "leftover", kLeftover},
};

class FileRules : public Rules {
 public:
  using Rules::Rules;

  // Finds files outside the index with tensors of the model's names. Loaders
  // that read all files of a directory may use these copies.
  void CheckStrays() {
    for (const std::string& name : model_.strays()) {
      // Mistral's own form; loaders that follow the index skip it.
      const bool listed = !model_.index_name().empty();
      if (listed && name.starts_with("consolidated")) continue;
      const auto file = safetensors::File::Open(model_.folder().OpenFile(name));
      if (!file.ok()) continue;
      for (const safetensors::Tensor& t : file->tensors()) {
        if (model_.Find(t.name) == nullptr) continue;
        Find("stray-file", name,
             "it is not part of {}, but also has a tensor {}",
             listed ? model_.index_name() : model_.shards().front().name,
             t.name);
        break;
      }
    }
  }

  // Checks the metadata: if there is any, transformers requires a known
  // "format".
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
      Find("file-format", shard.name, "{}",
           format == metadata.end()
               ? "its metadata has no \"format\""
               : fmt::format("the \"format\" in its metadata is {}, but must "
                             "be one of {}",
                             Shown(format->second), fmt::join(kFormats, ", ")));
    }
  }

  void CheckNames() {
    for (const ModelTensor& t : model_.tensors()) {
      if (const auto wrapper = WrapperOf(t.name()); !wrapper.empty()) {
        Find("wrapped-names", t.name(), "its name {} \"{}\"",
             t.name().starts_with(wrapper) ? "begins with" : "has", wrapper);
      }
      for (const Fragment& f : kFragments) {
        if (t.name().find(f.text) == std::string::npos) continue;
        Find({f.rule, f.kind}, t.name(), "{}", f.said);
      }
    }
    if (model_.unlisted() > 0) {
      Find("index", model_.index_name(), "it lacks {} tensors of its shards",
           model_.unlisted());
    }
  }
};

constexpr std::string_view kLayers = "model.layers";

// Whether the whole model is a plain decoder, without towers.
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

  // Finds names that lack the prefix "model." or have it twice.
  void CheckPlaces() {
    // A decoder without its head, as sentence encoders are saved, has names
    // without that prefix.
    if (!AnyTensor([](const ModelTensor& t) {
          return IsOfHead(t.name()) ||
                 t.name().find(kModelPrefix) != std::string::npos;
        })) {
      return;
    }
    for (const ModelTensor& t : model_.tensors()) {
      const NumberedName layer = LayerOf(t.name());
      const bool place = layer.before.ends_with("layers") ||
                         t.name().ends_with("embed_tokens.weight");
      if (!place || layer.before == kLayers ||
          t.name() == "model.embed_tokens.weight" || IsWrapped(t.name())) {
        continue;
      }
      Find({"wrapped-names", kMisplaced}, t.name(),
           "in a {}, engines expect its name to begin with \"model.\" once",
           model_.model_type());
    }
  }

  // Finds modules that layers of this model type do not have.
  void CheckModules() {
    const auto known = ModulesOfLayers(model_.model_type());
    if (known.empty()) return;
    for (const ModelTensor& t : model_.tensors()) {
      const NumberedName layer = LayerOf(t.name());
      if (layer.before != kLayers) continue;
      const std::string module = layer.rest.substr(0, layer.rest.find('.'));
      if (Has(known, module)) continue;
      Find({"missing-weight", "foreign"}, t.name(),
           "layers of a {} have no {}: engines ignore the tensor or fail",
           model_.model_type(), module);
    }
  }

 private:
  // Whether FileRules already reports the name.
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
  if (linted.model.single_file() || !IsWholeDecoder(linted)) return;
  rules.CheckPlaces();
  rules.CheckModules();
}

}  // namespace quantd::checkpoint
