// Interprets the names of a model's modules: the role of each weight, and the
// weights that an engine fuses into one, which must share a scale.
#ifndef QUANTD_CLIENT_CHECKPOINT_ARCHITECTURE_H_
#define QUANTD_CLIENT_CHECKPOINT_ARCHITECTURE_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/checkpoint/anatomy/role.h"
#include "client/checkpoint/model.h"

namespace quantd::checkpoint {

// Names of sibling modules that engines fuse.
using FusedNames = std::vector<std::string>;

class Architecture {
 public:
  // `more` adds groups of fused siblings, each written "a,b,c".
  // INVALID_ARGUMENT for a group with fewer than two names or with a dot in a
  // name.
  static absl::StatusOr<Architecture> Of(const Model& model,
                                         const std::vector<std::string>& more);

  // Whether the fusions of engines are known for this model_type.
  bool known() const { return known_; }
  Role RoleOf(std::string_view module) const { return roles_.RoleOf(module); }
  const ModelClass& model_class() const { return roles_.model_class(); }

  // Whether the model stores the weight transposed, as K rows of N, like GPT-2.
  // Engines transpose it while loading, but only if it is not quantized.
  bool IsTransposed(std::string_view module) const;

  // A key that is equal for modules that are fused, and "" for a module that is
  // not fused. `cols` is the module's K. It distinguishes modules of an unknown
  // architecture whose names are in no table.
  std::string FusionKey(std::string_view module, int64_t cols) const;

 private:
  bool known_ = false;
  bool transposed_ = false;
  Roles roles_;
  std::vector<FusedNames> fused_;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_ARCHITECTURE_H_
