// Recognizes adapters: weights that only modify those of another model.
#ifndef QUANTD_CLIENT_CHECKPOINT_ANATOMY_ADAPTER_H_
#define QUANTD_CLIENT_CHECKPOINT_ANATOMY_ADAPTER_H_

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

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_ANATOMY_ADAPTER_H_
