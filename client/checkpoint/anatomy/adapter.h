// Adapters: weights that are nothing without those of a model.
#ifndef QUANTD_CLIENT_CHECKPOINT_ANATOMY_ADAPTER_H_
#define QUANTD_CLIENT_CHECKPOINT_ANATOMY_ADAPTER_H_

#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/pattern.h"

namespace quantd::checkpoint {

// Whether the tensor is one of an adapter's, by its name: LoRA of PEFT,
// diffusers and kohya, DoRA, IA3, LoHa, LoKr, OFT and others of
// PEFT's, IP-Adapter, ControlNet-LLLite.
bool IsOfAdapter(std::string_view tensor);

// INVALID_ARGUMENT for a model that is an adapter, or has some that no pattern
// of `ignore` leaves as they are.
absl::Status RefuseAdapter(const Model& model,
                           const std::vector<Pattern>& ignore);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_ANATOMY_ADAPTER_H_
