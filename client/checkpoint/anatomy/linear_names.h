// Names of linear layers that engines and converters are known to support
// quantized. Other modules are quantized only if the user names them.
#ifndef QUANTD_CLIENT_CHECKPOINT_ANATOMY_LINEAR_NAMES_H_
#define QUANTD_CLIENT_CHECKPOINT_ANATOMY_LINEAR_NAMES_H_

#include <string>
#include <string_view>
#include <vector>

#include "client/checkpoint/model.h"
#include "client/checkpoint/names.h"

namespace quantd::checkpoint {

// Whether a layer with this last name computes queries, keys and values
// together.
bool IsFusedAttention(std::string_view leaf);

// Whether `leaf` is the last part of the name of a linear layer in attention, a
// feed-forward layer or a mixer of a language model.
bool IsLinearName(std::string_view leaf);

// Whether the module is a linear layer of a language model, judged by its own
// name and by the names of the modules around it.
bool IsLanguageLinear(const NameParts& parts);

// Whether engines split the weight of a linear layer with this last name while
// they load it, and may then read 4-bit codes as numbers. True for kv_b_proj of
// latent attention.
bool IsSplitByEngines(std::string_view leaf);

// Whether engines reorder the rows of a linear layer with this last name while
// they load a model of that type: the queries and keys of Llama 4. vLLM also
// reorders the scales of rows, but no 128x128 blocks; SGLang reorders no scales
// and no packed codes.
bool IsReorderedByEngines(std::string_view model_type, std::string_view leaf);

// The modules into which transformers 5 splits this module while it loads a
// model of that type; empty if it does not. A scale of the whole weight belongs
// to none of them.
std::vector<std::string> SplitParts(std::string_view model_type,
                                    std::string_view module);

// Whether the module's own name is that of a linear layer in a block of a
// diffusion model.
bool IsDiffusionLinear(const NameParts& parts);

// Whether the module is in a numbered block of a diffusion model, as opposed to
// the input layers or another model in the same file.
bool IsInDiffusionBlock(const NameParts& parts);

// Whether the model has the tensor names of diffusers, which ComfyUI renames
// while it loads the model. It renames weights and biases only, so that scales
// are lost. Some models, such as Qwen-Image, have the same names in both.
bool IsRenamedByComfy(const Model& model);

// Whether ComfyUI derives the model's dimensions from the number of columns of
// this weight: the keys of cross attention. Packed codes have fewer columns.
bool IsMeasuredByComfy(std::string_view module);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_ANATOMY_LINEAR_NAMES_H_
