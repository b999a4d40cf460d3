// Parses kComfyMetadata, the metadata in which ComfyUI describes quantized
// layers.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_COMFY_METADATA_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_COMFY_METADATA_H_

#include <map>
#include <string>
#include <string_view>

#include "client/checkpoint/model.h"
#include "client/checkpoint/stored.h"

namespace quantd::checkpoint {

// Prefix of the diffusion model's names in a checkpoint with text encoders.
inline constexpr char kComfyPrefix[] = "model.diffusion_model.";

// Parses the description of a layer or of all layers. Returns what is wrong
// with it, or "".
std::string ParseComfy(const std::string& text, Json* json);

struct ComfyMetadata {
  std::string shard;  // the shard with the metadata; "" if none
  std::string fault;  // why it cannot be parsed; "" if it can
  // The description of each module.
  std::map<std::string, Json, std::less<>> layers;

  // Parses the first shard that has the metadata. Its content is not trusted.
  static ComfyMetadata Of(const Model& model);
  // Returns nullptr if the module has no entry. Names match with or without
  // kComfyPrefix.
  const Json* Find(std::string_view module) const;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_COMFY_METADATA_H_
