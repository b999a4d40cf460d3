#include "client/checkpoint/anatomy/strays.h"

#include <set>

#include "client/checkpoint/anatomy/role.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
absl::Status CheckStrays(const Model& model, std::vector<std::string>* notes) {
  if (model.index_name().empty() || model.left() > 0) return absl::OkStatus();
  const Roles roles = Roles::Of(model);
  std::set<std::string> kinds;
  for (const ModelTensor& t : model.tensors()) {
    kinds.insert(WithoutNumbers(t.name()));
  }
  for (const std::string& stray : model.strays()) {
    const auto file = safetensors::File::Open(model.folder().OpenFile(stray));
    if (!file.ok()) continue;
    const std::string* own = nullptr;
    for (const safetensors::Tensor& t : file->tensors()) {
      if (model.Find(t.name) != nullptr) continue;
      if (own == nullptr) own = &t.name;
      if (kinds.count(WithoutNumbers(t.name)) == 0 ||
          roles.RoleOf(ModuleOf(t.name)) == Role::kMultiToken) {
        continue;
      }
      return absl::InvalidArgumentError(fmt::format(
          "{}/{}: {} in {} is missing from this index, although the index has "
          "the same tensor of other layers: download the index of these files "
          "again, or remove that file if it belongs to another model",
          model.path(), model.index_name(), t.name.substr(0, 200), stray));
    }
    if (own != nullptr) {
      notes->push_back(
          fmt::format("{} has tensors that the model does not have, for "
                      "example {}; they are not converted",
                      stray, own->substr(0, 200)));
    }
  }
  return absl::OkStatus();
}

}  // namespace quantd::checkpoint
