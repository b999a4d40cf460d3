// The content of a model's kComfyMetadata.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_COMFY_METADATA_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_COMFY_METADATA_H_

#include <map>
#include <string>
#include <string_view>

#include "client/checkpoint/model.h"
#include "client/checkpoint/stored.h"

namespace quantd::checkpoint {

// Prefix of names in a whole checkpoint, which also has text encoders.
inline constexpr char kComfyPrefix[] = "model.diffusion_model.";

struct ComfyMetadata {
  std::string shard;  // shard that has it; empty: there is none
  std::string fault;  // why it cannot be read; empty: it can
  // The object for each module.
  std::map<std::string, Json, std::less<>> layers;

  // Nothing in it is trusted.
  static ComfyMetadata Of(const Model& model);
  // Returns nullptr if there is no entry. Names match with or without the
  // prefix of whole checkpoints.
  const Json* Find(std::string_view module) const;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_COMFY_METADATA_H_
