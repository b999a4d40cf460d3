#include "client/checkpoint/anatomy/adapter.h"

#include <algorithm>
#include <string>

#include "client/checkpoint/anatomy/role.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// Beginnings of the parts of names between dots.
constexpr std::string_view kStarts[] = {"lora_A",
                                        "lora_B",
                                        "lora_E",
                                        "lora_up",
                                        "lora_down",
                                        "lora_mid",
                                        "lora_embedding_",
                                        "lora_magnitude_vector",
                                        "ia3_l",
                                        "hada_w1",
                                        "hada_w2",
                                        "lokr_w1",
                                        "lokr_w2",
                                        "oft_r",
                                        "oft_blocks",
                                        "dora_scale",
                                        "base_model.model.",
                                        "lora_unet_",
                                        "lora_te",
                                        "ip_adapter",
                                        "to_k_ip",
                                        "to_v_ip",
                                        "lllite_",
                                        "vera_",
                                        "boft_",
                                        "hra_u",
                                        "randlora_",
                                        "vblora_",
                                        "road_theta",
                                        "bone_block",
                                        "miss_block",
                                        "c3a_kernel",
                                        "fourierft_spectrum",
                                        "oft_R",
                                        "modules_to_save"};
// Words in the names of adapters that cannot be merged into weights.
constexpr std::string_view kBeside[] = {"ip_adapter", "to_k_ip", "to_v_ip",
                                        "lllite_"};
// Further adapter names. "lora" alone is too short: RWKV's own layers have it
// in their names.
constexpr std::string_view kWithin[] = {"lora.down.", "lora.up.", "lora.down_",
                                        "lora.up_",   ".lora_a.", ".lora_b."};

}  // namespace

bool IsOfAdapter(std::string_view tensor) {
  for (const std::string_view start : kStarts) {
    for (size_t at = tensor.find(start); at != std::string_view::npos;
         at = tensor.find(start, at + 1)) {
      if (at == 0 || tensor[at - 1] == '.') return true;
    }
  }
  if (tensor.ends_with(".lora_a") || tensor.ends_with(".lora_b")) return true;
  return std::any_of(std::begin(kWithin), std::end(kWithin), [&](auto within) {
    return tensor.find(within) != std::string_view::npos;
  });
}

absl::Status RefuseAdapter(const Model& model,
                           const std::vector<Pattern>& ignore) {
  const bool whole = std::all_of(
      model.shards().begin(), model.shards().end(), [](const auto& shard) {
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
  for (const std::string_view word : kBeside) {
    if (first->name().find(word) == std::string::npos) continue;
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
  const bool inside =
      std::any_of(model.tensors().begin(), model.tensors().end(), [](auto& t) {
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

}  // namespace quantd::checkpoint
