// The part that a module plays in a model, told by its name and by what the
// configuration says.
#ifndef QUANTD_CLIENT_CHECKPOINT_ANATOMY_ROLE_H_
#define QUANTD_CLIENT_CHECKPOINT_ANATOMY_ROLE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "client/checkpoint/anatomy/linear_names.h"
#include "client/checkpoint/anatomy/model_class.h"
#include "client/checkpoint/model.h"

namespace quantd::checkpoint {

enum class Role {
  kLinear,   // what is quantized unless somebody says otherwise
  kUnknown,  // a linear layer, perhaps: it stays, and is said to
  kHead,     // lm_head, classifiers
  kEmbedding,
  kNorm,
  kRouter,      // chooses experts; tiny and touchy
  kVision,      // towers of images and sound, and what joins them to the text
  kMultiToken,  // heads that predict further tokens
  kIndexer,     // chooses what sparse attention looks at
  kGate,        // of linear attention and state spaces
  kCondition,   // what a diffusion model takes input, time and text by
};
// Whether an engine has a linear layer there, as far as is known.
inline bool MayBeLinear(Role role) {
  return role == Role::kLinear || role == Role::kUnknown;
}
// The name of several such modules, for a sentence: "2 output heads".
std::string_view Describe(Role role);

// "model.layers.0.mlp.down_proj" of a tensor's name with ".weight".
std::string_view ModuleOf(std::string_view tensor);

// "model.layers.0.mlp" and "gate_proj".
struct ModuleName {
  std::string_view parent;
  std::string_view leaf;
};
ModuleName SplitModule(std::string_view module);

// "model.layers.0.mlp.experts" of a module "...experts.7.up_proj"; "": it is of
// no single expert.
std::string_view ExpertsAbove(std::string_view module);

// The name with each run of digits as one '#': layers and experts share it.
std::string WithoutNumbers(std::string_view name);

// What a wrapper of training put into the name, "module." for one; "" where
// none did.
std::string_view WrapperOf(std::string_view name);

// Whether rows of it are looked up, and nothing is multiplied with it.
bool IsTable(std::string_view module);

class Roles {
 public:
  static Roles Of(const Model& model);

  Role RoleOf(std::string_view module) const;

  // The class that the configuration names. Without such a name the names of
  // tensors decide: kUnnamed is then a language model.
  const ModelClass& model_class() const { return class_; }

 private:
  // The part of a model with towers that is its language model: under its name,
  // under "thinker.model", or in the layers that a model of text has.
  enum class Place : uint8_t { kEverywhere, kNamed, kThinker, kLayers };

  // Whether it is below a nested configuration that is of no language model.
  bool IsNestedTower(const NameParts& parts) const;
  // Whether these are names that a language model and no other kind has.
  bool AreOfLanguage(const Model& model) const;

  ModelClass class_;
  std::string type_;  // the model_type
  bool draft_heads_ = false;
  std::vector<std::string> nested_towers_;
  int64_t layers_ = 0;  // of the language model; 0: unknown
  Place place_ = Place::kEverywhere;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_ANATOMY_ROLE_H_
