#include "client/checkpoint/anatomy/whole_model.h"

#include <algorithm>
#include <set>
#include <string>

#include "client/checkpoint/anatomy/role.h"
#include "client/files/words.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// Beginnings of the parts of names between dots.
constexpr Words kStarts = R"(
    lora_A lora_B lora_E lora_up lora_down lora_mid lora_embedding_
    lora_magnitude_vector ia3_l hada_w1 hada_w2 lokr_w1 lokr_w2 oft_r
    oft_blocks dora_scale base_model.model. lora_unet_ lora_te ip_adapter
    to_k_ip to_v_ip lllite_ vera_ boft_ hra_u randlora_ vblora_ road_theta
    bone_block miss_block c3a_kernel fourierft_spectrum oft_R modules_to_save)";
// Words in the names of adapters that cannot be merged into weights.
constexpr Words kBeside = "ip_adapter to_k_ip to_v_ip lllite_";
// Further adapter names. "lora" alone is too short: RWKV's own layers have it
// in their names.
constexpr Words kWithin =
    "lora.down. lora.up. lora.down_ lora.up_ .lora_a. .lora_b.";

}  // namespace

bool IsOfAdapter(std::string_view tensor) {
  for (const std::string_view start : kStarts) {
    for (size_t at = tensor.find(start); at != std::string_view::npos;
         at = tensor.find(start, at + 1)) {
      if (at == 0 || tensor[at - 1] == '.') return true;
    }
  }
  return EndsWithOneOf(tensor, Words(".lora_a .lora_b")) ||
         HoldsOneOf(tensor, kWithin);
}

absl::Status RefuseAdapter(const Model& model,
                           const std::vector<Pattern>& ignore) {
  const bool whole = std::ranges::all_of(model.shards(), [](const auto& shard) {
    return shard.name.starts_with("adapter_model");
  });
  const ModelTensor* first =
      whole && !model.tensors().empty() ? &model.tensors().front() : nullptr;
  for (const ModelTensor& t : model.tensors()) {
    if (first != nullptr) break;
    if (IsOfAdapter(t.name()) &&
        FirstMatch(ignore, std::string(ModuleOf(t.name()))) == nullptr) {
      first = &t;
    }
  }
  if (first == nullptr) return absl::OkStatus();
  if (HoldsOneOf(first->name(), kBeside)) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: {} belongs to an adapter that is loaded separately from its "
        "model: convert the model alone and load the adapter unconverted (an "
        "IP-Adapter with load_ip_adapter of a diffusers pipeline)",
        model.path(), first->name()));
  }
  if (first->name().find(".parametrizations.") != std::string::npos) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: {} belongs to an adapter that the model's own code applies to its "
        "weights: select the task with that code, fold each weight with "
        "torch.nn.utils.parametrize.remove_parametrizations(module, "
        "\"weight\"), save the model and convert the result",
        model.path(), first->name()));
  }
  const bool inside = std::ranges::any_of(model.tensors(), [](auto& t) {
    return t.name().ends_with(".weight") && t.stored.shape.size() == 2 &&
           !IsOfAdapter(t.name());
  });
  if (inside && !whole) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: {} belongs to an adapter that is stored together with its model: "
        "merge it into the weights and convert the result, or copy it "
        "unchanged with --ignore '*lora_*' (a pattern for all names of the "
        "adapter) if your engine loads such models",
        model.path(), first->name()));
  }
  return absl::InvalidArgumentError(fmt::format(
      "{}: {} belongs to an adapter, which cannot be used without its model: "
      "merge the two and convert the result (Python: "
      "peft.AutoPeftModelForCausalLM.from_pretrained(DIR).merge_and_unload()."
      "save_pretrained(OUT); in a diffusers pipeline load_lora_weights(DIR), "
      "fuse_lora() and save_pretrained(OUT))",
      model.path(), first->name()));
}

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
