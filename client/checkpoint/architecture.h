// What the names of a model's modules tell: what part a weight plays, and which
// weights an engine fuses into one, so that they must share a scale.
#ifndef QUANTD_CLIENT_CHECKPOINT_ARCHITECTURE_H_
#define QUANTD_CLIENT_CHECKPOINT_ARCHITECTURE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/checkpoint/model.h"

namespace quantd::checkpoint {

// The part that a weight plays.
enum class Role {
  kLinear,  // what is quantized unless somebody says otherwise
  kHead,    // lm_head, classifiers
  kEmbedding,
  kNorm,
  kRouter,      // chooses experts; tiny and touchy
  kVision,      // towers of images and sound, and what joins them to the text
  kMultiToken,  // heads that predict further tokens
};
// Of many, for a sentence: "2 output heads".
std::string_view Describe(Role role);

// Names of siblings that are fused.
using FusedNames = std::vector<std::string>;

class Architecture {
 public:
  // `more`: further groups, "a,b,c" each. INVALID_ARGUMENT for one of fewer
  // than two names, or with a dot in one.
  static absl::StatusOr<Architecture> Of(const Model& model,
                                         const std::vector<std::string>& more);

  // Whether somebody looked at what engines fuse of this model_type.
  bool known() const { return known_; }
  Role RoleOf(std::string_view module) const;

  // Whether the model keeps the weight as K rows of N, as GPT-2 does: engines
  // turn it while they load it, and only if it is not quantized.
  bool IsTurned(std::string_view module) const;

  // Modules with equal keys are fused; "" is fused with none. `cols`: the K of
  // the module, by which those of an unknown architecture are told whose names
  // are in no table.
  std::string FusionKey(std::string_view module, int64_t cols) const;

 private:
  bool known_ = false;
  bool turned_ = false;
  int64_t layers_ = 0;  // num_hidden_layers; 0: unknown
  std::vector<FusedNames> fused_;
};

// "model.layers.0.mlp.down_proj" of a tensor's name with ".weight".
std::string_view ModuleOf(std::string_view tensor);

// "model.layers.0.mlp" and "gate_proj".
struct ModuleName {
  std::string_view parent;
  std::string_view leaf;
};
ModuleName SplitModule(std::string_view module);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_ARCHITECTURE_H_
