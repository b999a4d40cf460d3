// Refuses directories without a whole model: adapters, which only modify the
// weights of another model, and files of weights that the index does not name.
#ifndef QUANTD_CLIENT_CHECKPOINT_ANATOMY_WHOLE_MODEL_H_
#define QUANTD_CLIENT_CHECKPOINT_ANATOMY_WHOLE_MODEL_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/pattern.h"

namespace quantd::checkpoint {

// Whether the tensor belongs to an adapter, judged by its name: LoRA of PEFT,
// diffusers and kohya, DoRA, IA3, LoHa, LoKr, OFT and others of PEFT,
// IP-Adapter, ControlNet-LLLite.
bool IsOfAdapter(std::string_view tensor);

// INVALID_ARGUMENT if the model is an adapter, or has adapter tensors that no
// pattern of `ignore` matches.
absl::Status RefuseAdapter(const Model& model,
                           const std::vector<Pattern>& ignore);

// INVALID_ARGUMENT if the index lacks a shard: a file has tensors with the
// names of other layers of the model. Other files, such as MTP heads or weights
// in another form, are common; a note is added for each.
absl::Status CheckStrays(const Model& model, std::vector<std::string>* notes);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_ANATOMY_WHOLE_MODEL_H_
