// The weights that tensors hold, those of them that share an amax, and the
// tensors that they become.
#ifndef QUANTD_CLIENT_CHECKPOINT_WEIGHTS_H_
#define QUANTD_CLIENT_CHECKPOINT_WEIGHTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/checkpoint/architecture.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"

namespace quantd::checkpoint {

// A quantized weight that is no stack, to be decoded as it is read.
Weight WeightOf(const StoredWeight& stored);

// Without layout and outputs: one of a matrix that is named as a weight, all
// of a stack of experts, none of another tensor. `whole`: as Unstack takes it,
// whose errors these are.
absl::StatusOr<std::vector<Weight>> WeightsOf(const Model& model,
                                              const ModelTensor& tensor,
                                              bool whole);

// Puts weights with layouts together where engines fuse them and their scales
// hang on an amax; in the order of their first ones.
std::vector<FusedWeights> FuseWeights(std::vector<Weight> weights,
                                      const Architecture& architecture);

// The last part of a fused layer, which may end within a block of FP8.
inline constexpr std::string_view kLastOfFused = "kv_a_proj_with_mqa";

// Takes out of `weights` those that engines do not run as FP8 blocks, and what
// they fuse these with: parts of a fused layer begin at a multiple of 128 rows,
// and activations have blocks of 128 of K.
std::vector<Weight> TakeUneven(const Model& model,
                               const Architecture& architecture,
                               std::vector<Weight>* weights);

// Gives weights the largest magnitudes of their inputs, fused ones that of them
// all, and notes those without. INVALID_ARGUMENT where engines want one.
absl::Status TakeInputs(const Selection& selection, ConversionPlan* plan);

// The tensors that a weight becomes which is no expert of a stack that stays
// one. Sets its outputs.
std::vector<safetensors::Tensor> PartsOf(Weight* weight);
// The same of all experts of a stack that stays one, in their order.
std::vector<safetensors::Tensor> PartsOfStack(
    const std::vector<Weight*>& experts);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_WEIGHTS_H_
