#include "client/checkpoint/anatomy/comfy_layout.h"

#include <algorithm>
#include <iterator>

namespace quantd::checkpoint {
namespace {

// Two tensors by which ComfyUI recognizes a model of diffusers, from its
// model_detection.py.
struct Signature {
  const char* first;
  const char* second;
};
constexpr Signature kRenamed[] = {
    // AuraFlow
    {"joint_transformer_blocks.0.attn.add_k_proj.weight",
     "joint_transformer_blocks.0.attn.add_k_proj.weight"},
    // Flux
    {"x_embedder.weight", "transformer_blocks.0.attn.to_q.weight"},
    // Stable Diffusion 3
    {"pos_embed.proj.weight", "transformer_blocks.0.attn.add_q_proj.weight"},
    // PixArt
    {"pos_embed.proj.weight",
     "adaln_single.emb.timestep_embedder.linear_1.weight"},
    // Z-Image
    {"noise_refiner.0.attention.to_q.weight",
     "noise_refiner.0.attention.norm_k.weight"},
    // UNets
    {"conv_in.weight", "time_embedding.linear_1.weight"}};

}  // namespace

bool IsRenamedByComfy(const Model& model) {
  return std::any_of(std::begin(kRenamed), std::end(kRenamed),
                     [&](const Signature& s) {
                       return model.Find(s.first) != nullptr &&
                              model.Find(s.second) != nullptr;
                     });
}

bool IsMeasuredByComfy(std::string_view module) {
  return module.ends_with(".attn2.to_k");
}

}  // namespace quantd::checkpoint
