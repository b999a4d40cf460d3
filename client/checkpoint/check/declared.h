// What config.json and ModelOpt's own file say of a model and its quantization.
// Nothing that they say is trusted, its JSON type included.
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

// nullptr where there is no such member, or no object to have one.
const Json* Member(const Json* object, std::string_view key);
std::optional<std::string> TextOf(const Json* value);
std::optional<int64_t> IntegerOf(const Json* value);
// A number of config.json, or of the text model that it describes.
std::optional<int64_t> ModelNumber(const Json& config, std::string_view key);
// For a sentence, and short.
std::string Shown(const Json* value);
inline std::string Shown(const Json& value) { return Shown(&value); }

inline constexpr char kTiedHead[] = "tie_word_embeddings";

// Whether the head of a language model is the matrix of its embeddings, as
// libraries take it: what config.json says, else what the type of the model
// means. Nothing where neither does, or where it says both.
std::optional<bool> IsHeadTied(const Json& config, std::string_view type);

struct DeclaredGroup {
  std::string name;  // "config_groups.NVFP4"
  const Json* json = nullptr;
  ModuleList targets;
  bool all_linear = false;  // its targets name the class
};

class Declared {
 public:
  explicit Declared(const Model& model);

  // config.json's quantization_config; nullptr: there is none that is an
  // object.
  const Json* quantization() const;
  Dialect dialect() const { return dialect_; }
  // hf_quant_config.json: why it cannot be read, and its "quantization".
  const absl::Status& own_status() const { return own_status_; }
  const Json* own() const { return Member(&own_, "quantization"); }
  // Of compressed-tensors.
  const std::vector<DeclaredGroup>& groups() const { return groups_; }
  // The one that engines take for a module: one that names it goes before one
  // that names its class. nullptr: none.
  const DeclaredGroup* GroupOf(std::string_view module) const;
  // Modules that stay as they are.
  const ModuleList& ignored() const { return ignored_; }
  // The same as ModelOpt's own file has them.
  const ModuleList& excluded() const { return excluded_; }
  // "NVFP4", of all weights or of that one, as the file says that engines read
  // first; "" if none does.
  std::string AlgorithmOf(std::string_view module) const;
  // Whether engines want the scale of a module's inputs in the file.
  bool NeedsInputScale(const StoredWeight& weight) const;
  // Whether the cache of keys and values is quantized with scales that the file
  // holds.
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
