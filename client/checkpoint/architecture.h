// What the names of a model's modules tell: what part a weight plays, and which
// weights an engine fuses into one, so that they must share a scale.
#ifndef QUANTD_CLIENT_CHECKPOINT_ARCHITECTURE_H_
#define QUANTD_CLIENT_CHECKPOINT_ARCHITECTURE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/checkpoint/anatomy/role.h"
#include "client/checkpoint/model.h"

namespace quantd::checkpoint {

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
  Role RoleOf(std::string_view module) const { return roles_.RoleOf(module); }
  const ModelClass& model_class() const { return roles_.model_class(); }

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
  Roles roles_;
  std::vector<FusedNames> fused_;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_ARCHITECTURE_H_
