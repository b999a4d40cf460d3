// Interprets what config.json and ModelOpt's hf_quant_config.json declare about
// a model and its quantization. Neither their values nor their JSON types are
// trusted.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_DECLARED_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_DECLARED_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/pattern.h"
#include "client/checkpoint/stored.h"

namespace quantd::checkpoint {

inline constexpr char kConfigFile[] = "config.json";
inline constexpr char kModelOptFile[] = "hf_quant_config.json";

// An integer of config.json or of its text_config.
std::optional<int64_t> ModelNumber(const Json& config, std::string_view key);
inline constexpr char kTiedHead[] = "tie_word_embeddings";

// Whether the output head is tied to the embeddings, according to config.json
// or else to the default of the model's type. nullopt if the default is unknown
// or config.json contradicts itself.
std::optional<bool> IsHeadTied(const Json& config, std::string_view type);

// A list of modules in a model's configuration, matched as engines match it.
class ModuleList {
 public:
  enum class Rule {
    kExactOrRegular,  // compressed-tensors: names, or "re:" and an expression
    kGlobs,           // ModelOpt: * matches any text
    kPrefixes,        // transformers' FP8 and MXFP4: all below the module, and
                      // modules whose names have that ending
  };

  ModuleList() = default;
  // A `list` that is nullptr or not a list of strings counts as empty.
  ModuleList(const Json* list, Rule rule);

  bool empty() const { return entries_.empty(); }
  // Whether all engines find the module in the list.
  bool Names(std::string_view module) const;
  // Whether some engine finds its own layer of that name in the list: SGLang
  // also by an ending of the name or by one of its parts, vLLM by any part of
  // the text in lists of globs.
  bool HoldsLayer(std::string_view name) const;
  // A listed name that occurs anywhere in the module's name, or "". In lists of
  // prefixes, transformers before version 5 counts that as a match.
  std::string_view PartOf(std::string_view module) const;
  // Whether some engine may find the module: by part of its name, by another
  // prefix of the same layer, or by an expression that RE2 does not support.
  bool MayName(std::string_view module) const;
  // Expressions that are invalid in every engine, with the reason.
  const std::vector<std::string>& broken() const { return broken_; }
  // The entries, sorted and without duplicates.
  std::vector<std::string> texts() const;

 private:
  struct Entry {
    std::string text;
    std::optional<Pattern> pattern;  // nullopt for a plain name
    bool foreign = false;  // a regular expression that RE2 does not support
  };
  Rule rule_ = Rule::kPrefixes;
  std::vector<Entry> entries_;
  std::vector<std::string> broken_;
};

struct DeclaredGroup {
  std::string name;  // "config_groups.NVFP4"
  const Json* json = nullptr;
  ModuleList targets;
  bool all_linear = false;  // targets name the class of linear layers
};

class Declared {
 public:
  explicit Declared(const Model& model);

  // The outermost description of the quantization in config.json, such as
  // quantization_config. If config.json has none, it is own(), as for vLLM and
  // SGLang. nullptr if the description is not an object.
  const Json* quantization() const;
  Dialect dialect() const { return dialect_; }
  // The error of reading hf_quant_config.json, ModelOpt's own file, or OK.
  const absl::Status& own_status() const { return own_status_; }
  // The member "quantization" of that file, or nullptr.
  const Json* own() const { return Member(&own_, "quantization"); }
  // The config_groups of compressed-tensors; empty for other dialects.
  const std::vector<DeclaredGroup>& groups() const { return groups_; }
  // The group that engines use for a module, or nullptr. A group that names the
  // module precedes one that names its class.
  const DeclaredGroup* GroupOf(std::string_view module) const;
  // Modules that config.json lists as not quantized.
  const ModuleList& ignored() const { return ignored_; }
  // Modules that hf_quant_config.json excludes.
  const ModuleList& excluded() const { return excluded_; }
  // The algorithm of the module or of all weights, such as "NVFP4", according
  // to hf_quant_config.json or else to config.json; "" if neither names one.
  std::string AlgorithmOf(std::string_view module) const;
  // Whether engines require that the file has an input scale for the weight.
  bool NeedsInputScale(const StoredWeight& weight) const;
  // Whether the KV cache is declared as quantized with scales from the file.
  bool HasCacheScales() const;

 private:
  const Json* config_;
  Dialect dialect_;
  absl::Status own_status_;
  Json own_ = Json::object();
  std::vector<DeclaredGroup> groups_;
  ModuleList ignored_;
  ModuleList excluded_;
};

// Prefix of the diffusion model's names in a checkpoint with text encoders.
inline constexpr char kComfyPrefix[] = "model.diffusion_model.";

// Parses the description of a layer or of all layers. Returns what is wrong
// with it, or "".
std::string ParseComfy(const std::string& text, Json* json);

// kComfyMetadata, in which ComfyUI describes quantized layers.
struct ComfyMetadata {
  std::string shard;  // the shard with the metadata; "" if none
  std::string fault;  // why it cannot be parsed; "" if it can
  // The description of each module.
  std::map<std::string, Json, std::less<>> layers;

  // Parses the first shard that has the metadata. Its content is not trusted.
  static ComfyMetadata Of(const Model& model);
  // Returns nullptr if the module has no entry. Names match with or without
  // kComfyPrefix.
  const Json* Find(std::string_view module) const;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_DECLARED_H_
