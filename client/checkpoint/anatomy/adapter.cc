#include "client/checkpoint/anatomy/adapter.h"

#include <algorithm>
#include <string>

#include "client/checkpoint/anatomy/role.h"
#include "fmt/format.h"

namespace quantd::checkpoint {
namespace {

// After a dot, or at the beginning.
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
// Those that are merged into no weight.
constexpr std::string_view kBeside[] = {"ip_adapter", "to_k_ip", "to_v_ip",
                                        "lllite_"};
// RWKV has layers with "lora" in their names that are its own.
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
        "{}: {} is of an adapter that stays beside its model, and is nothing "
        "without it: convert the model alone, and load this as it is (an "
        "IP-Adapter by load_ip_adapter of a diffusers pipeline)",
        model.path(), first->name()));
  }
  const bool inside =
      std::any_of(model.tensors().begin(), model.tensors().end(), [](auto& t) {
        return t.name().ends_with(".weight") && t.stored.shape.size() == 2 &&
               !IsOfAdapter(t.name());
      });
  if (inside && !whole) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: {} is of an adapter, within the model that it is for: merge it "
        "into the weights and take what comes out, or let --ignore '*lora_*' "
        "(the names of all of them) carry it for engines that know this model",
        model.path(), first->name()));
  }
  return absl::InvalidArgumentError(fmt::format(
      "{}: {} is of an adapter, which is nothing without its model: merge them "
      "first (Python: peft.AutoPeftModelForCausalLM.from_pretrained(DIR)"
      ".merge_and_unload().save_pretrained(OUT); of a diffusers pipeline "
      "load_lora_weights(DIR), fuse_lora() and save_pretrained(OUT)) and take "
      "what comes out",
      model.path(), first->name()));
}

}  // namespace quantd::checkpoint
