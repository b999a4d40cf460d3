// The text beside the tensors by which newer files of ComfyUI's name all
// quantized layers at once, where others have a comfy_quant for each.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_COMFY_METADATA_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_COMFY_METADATA_H_

#include <map>
#include <string>
#include <string_view>

#include "client/checkpoint/model.h"

namespace quantd::checkpoint {

inline constexpr char kComfyMetadata[] = "_quantization_metadata";
// Of the names in a whole checkpoint, beside those of its text encoders.
inline constexpr char kComfyPrefix[] = "model.diffusion_model.";

struct ComfyMetadata {
  std::string shard;  // that has it; empty: there is none
  std::string fault;  // why it cannot be read; empty: it can
  // What it says of a module: its object.
  std::map<std::string, Json, std::less<>> layers;

  // Nothing that it says is trusted.
  static ComfyMetadata Of(const Model& model);
  // nullptr: nothing. The prefix of whole checkpoints may be there or not.
  const Json* Find(std::string_view module) const;
};

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CHECK_COMFY_METADATA_H_
