// What kComfyMetadata of a model says.
#ifndef QUANTD_CLIENT_CHECKPOINT_CHECK_COMFY_METADATA_H_
#define QUANTD_CLIENT_CHECKPOINT_CHECK_COMFY_METADATA_H_

#include <map>
#include <string>
#include <string_view>

#include "client/checkpoint/model.h"
#include "client/checkpoint/stored.h"

namespace quantd::checkpoint {

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
