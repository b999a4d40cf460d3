// Finds the weights in a model's tensors, groups those that share an amax, and
// lays out their output tensors.
#ifndef QUANTD_CLIENT_CHECKPOINT_WEIGHTS_H_
#define QUANTD_CLIENT_CHECKPOINT_WEIGHTS_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/checkpoint/architecture.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"

namespace quantd::checkpoint {

// A Weight whose source is this quantized weight, which must not be a stack.
Weight WeightOf(const StoredWeight& stored);

// The weights in a tensor, without layout and outputs: one for a matrix named
// *.weight, all experts of a stack, none for any other tensor. For `whole` and
// the errors see Unstack.
absl::StatusOr<std::vector<Weight>> WeightsOf(const Model& model,
                                              const ModelTensor& tensor,
                                              bool whole);

// Groups weights that engines fuse if their scales depend on an amax. Groups
// are in the order of their first weights.
std::vector<FusedWeights> FuseWeights(std::vector<Weight> weights,
                                      const Architecture& architecture);

// The last member of a fused layer. It alone may end within an FP8 block.
inline constexpr std::string_view kLastOfFused = "kv_a_proj_with_mqa";

// Sets the input_amax of the plan's weights. Fused weights get the largest of
// their group. Adds a note about weights without one, or returns
// INVALID_ARGUMENT if engines need it.
absl::Status TakeInputs(const Selection& selection, ConversionPlan* plan);

// The attentions of a language model that cache keys and values, each with the
// shard of its first tensor.
std::map<std::string, size_t> AttentionsOf(const Model& model,
                                           const Architecture& architecture);

// Adds the scales of the KV cache to the plan and to its shards, if the
// selection has largest magnitudes, and notes attentions without one.
// INVALID_ARGUMENT if the dialect has no such scales, or no attention gets one.
absl::Status TakeCaches(const Model& model, const Architecture& architecture,
                        const Selection& selection, ConversionPlan* plan);

// The output tensors of a weight that is not part of an output stack. Sets its
// outputs.
std::vector<safetensors::Tensor> PartsOf(Weight* weight);
// The output tensors of a stack; `experts` are in order. Sets their outputs.
std::vector<safetensors::Tensor> PartsOfStack(
    const std::vector<Weight*>& experts);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_WEIGHTS_H_
