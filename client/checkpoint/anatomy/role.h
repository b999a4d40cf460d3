// The role of a module in a model, derived from its name and the configuration.
#ifndef QUANTD_CLIENT_CHECKPOINT_ANATOMY_ROLE_H_
#define QUANTD_CLIENT_CHECKPOINT_ANATOMY_ROLE_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "client/checkpoint/anatomy/config_facts.h"
#include "client/checkpoint/anatomy/linear_names.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/names.h"

namespace quantd::checkpoint {

enum class Role {
  kLinear,   // quantized by default
  kUnknown,  // perhaps a linear layer: not quantized, with a note
  kHead,     // lm_head, classifiers
  kEmbedding,
  kNorm,
  kRouter,      // chooses experts; small and sensitive to errors
  kVision,      // vision and audio towers, and their projectors
  kMultiToken,  // MTP and draft heads
  kIndexer,     // selects tokens for sparse attention
  kGate,        // gates of linear attention, and layers of Mamba-1
  kCondition,   // a diffusion model's layers for input, time and text
};
// Whether the module is, or may be, a linear layer in engines.
inline bool MayBeLinear(Role role) {
  return role == Role::kLinear || role == Role::kUnknown;
}
// The plural for a message: "output heads".
std::string_view Describe(Role role);

// Whether the module is an embedding table, whose rows are only looked up.
bool IsTable(std::string_view module);

class Roles {
 public:
  static Roles Of(const Model& model);

  Role RoleOf(std::string_view module) const;

  // The class that the configuration names. If it names none, tensor names
  // decide, and kUnnamed stands for a language model.
  const ModelClass& model_class() const { return class_; }

 private:
  // The position of the language model in a model with towers: under a name
  // such as "language_model", under "thinker.model", or in a list of
  // kLayerLists.
  enum class Place : uint8_t { kEverywhere, kNamed, kThinker, kLayers };

  // Whether the module belongs to one of nested_towers_.
  bool IsNestedTower(const NameParts& parts) const;
  // Whether only a language model has tensors with these names.
  bool AreOfLanguage(const Model& model) const;

  ModelClass class_;
  std::string type_;                          // the model_type
  std::set<std::string, std::less<>> mamba_;  // modules of Mamba-1
  bool draft_heads_ = false;
  std::vector<std::string> nested_towers_;
  int64_t layers_ = 0;  // layers of the language model; 0: unknown
  Place place_ = Place::kEverywhere;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_ANATOMY_ROLE_H_
