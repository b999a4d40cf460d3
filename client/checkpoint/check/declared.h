// Interprets what config.json and ModelOpt's own file declare about a model and
// its quantization. Nothing in them is trusted, not even JSON types.
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

// Returns nullptr if `object` is not an object or has no such member.
const Json* Member(const Json* object, std::string_view key);
std::optional<std::string> TextOf(const Json* value);
std::optional<int64_t> IntegerOf(const Json* value);
// A number of config.json, or of the text model that it describes.
std::optional<int64_t> ModelNumber(const Json& config, std::string_view key);
// A short form for a sentence.
std::string Shown(const Json* value);
inline std::string Shown(const Json& value) { return Shown(&value); }

inline constexpr char kTiedHead[] = "tie_word_embeddings";

// Whether the head of a language model is the matrix of its embeddings, by
// config.json or else by the default of the model's type. nullopt if neither
// says, or config.json contradicts itself.
std::optional<bool> IsHeadTied(const Json& config, std::string_view type);

struct DeclaredGroup {
  std::string name;  // "config_groups.NVFP4"
  const Json* json = nullptr;
  ModuleList targets;
  bool all_linear = false;  // its targets name the class of linear layers
};

class Declared {
 public:
  explicit Declared(const Model& model);

  // config.json's quantization_config; nullptr if it is not an object.
  const Json* quantization() const;
  Dialect dialect() const { return dialect_; }
  // hf_quant_config.json: why it cannot be read, and its "quantization".
  const absl::Status& own_status() const { return own_status_; }
  const Json* own() const { return Member(&own_, "quantization"); }
  // Groups of compressed-tensors.
  const std::vector<DeclaredGroup>& groups() const { return groups_; }
  // The group that engines use for a module: one that names the module goes
  // before one that names its class. nullptr: none.
  const DeclaredGroup* GroupOf(std::string_view module) const;
  // Modules that are not quantized.
  const ModuleList& ignored() const { return ignored_; }
  // Modules excluded by ModelOpt's own file.
  const ModuleList& excluded() const { return excluded_; }
  // The algorithm, such as "NVFP4", of all weights or of the module, from the
  // file that engines read first; "" if there is no algorithm.
  std::string AlgorithmOf(std::string_view module) const;
  // Whether engines require an input scale in the file.
  bool NeedsInputScale(const StoredWeight& weight) const;
  // Whether the KV cache is quantized with scales from the file.
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
