// What ComfyUI does with a diffusion model's tensors before it reads their
// scales.
#ifndef QUANTD_CLIENT_CHECKPOINT_ANATOMY_COMFY_LAYOUT_H_
#define QUANTD_CLIENT_CHECKPOINT_ANATOMY_COMFY_LAYOUT_H_

#include <string_view>

#include "client/checkpoint/model.h"

namespace quantd::checkpoint {

// Whether the model has the tensor names of diffusers, which ComfyUI renames
// while it loads the model. It renames weights and biases only, so that scales
// are lost. Some models, such as Qwen-Image, have the same names in both.
bool IsRenamedByComfy(const Model& model);

// Whether ComfyUI derives the model's dimensions from the number of columns of
// this weight: the keys of cross attention. Packed codes have fewer columns.
bool IsMeasuredByComfy(std::string_view module);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_ANATOMY_COMFY_LAYOUT_H_
