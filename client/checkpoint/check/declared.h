// Interprets what config.json and ModelOpt's hf_quant_config.json declare about
// a model and its quantization. Neither their values nor their JSON types are
// trusted.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_DECLARED_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_DECLARED_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/checkpoint/check/module_list.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/stored.h"

namespace quantd::checkpoint {

inline constexpr char kConfigFile[] = "config.json";
inline constexpr char kModelOptFile[] = "hf_quant_config.json";

// Returns nullptr if `object` is not an object or has no member `key`.
const Json* Member(const Json* object, std::string_view key);
// Returns nullopt if `value` is nullptr or not a string.
std::optional<std::string> TextOf(const Json* value);
std::optional<int64_t> IntegerOf(const Json* value);
// An integer of config.json or of its text_config.
std::optional<int64_t> ModelNumber(const Json& config, std::string_view key);
// The value as JSON for a message, cut to 60 characters; "nothing" for nullptr.
std::string Shown(const Json* value);
inline std::string Shown(const Json& value) { return Shown(&value); }

inline constexpr char kTiedHead[] = "tie_word_embeddings";

// Whether the output head is tied to the embeddings, according to config.json
// or else to the default of the model's type. nullopt if the default is unknown
// or config.json contradicts itself.
std::optional<bool> IsHeadTied(const Json& config, std::string_view type);

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

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_DECLARED_H_
