// The weights that tensors hold, those of them that share an amax, and the
// tensors that they become.
#ifndef QUANTD_CLIENT_CHECKPOINT_WEIGHTS_H_
#define QUANTD_CLIENT_CHECKPOINT_WEIGHTS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/checkpoint/architecture.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"

namespace quantd::checkpoint {

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

// The tensors that a weight becomes which is no expert of a stack that stays
// one. Sets its outputs.
std::vector<safetensors::Tensor> PartsOf(Weight* weight);
// The same of all experts of a stack that stays one, in their order.
std::vector<safetensors::Tensor> PartsOfStack(
    const std::vector<Weight*>& experts);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_WEIGHTS_H_
