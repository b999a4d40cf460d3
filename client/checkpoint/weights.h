// The weights in a model's tensors, those that share an amax, and the tensors
// that they become.
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

// A stored weight, not a stack, that is decoded when read.
Weight WeightOf(const StoredWeight& stored);

// The weights in a tensor, without layout and outputs: one for a matrix named
// as a weight, all experts of a stack, none for any other tensor. `whole` and
// the errors are those of Unstack.
absl::StatusOr<std::vector<Weight>> WeightsOf(const Model& model,
                                              const ModelTensor& tensor,
                                              bool whole);

// Groups weights that engines fuse and whose scales depend on an amax, in the
// order of each group's first weight.
std::vector<FusedWeights> FuseWeights(std::vector<Weight> weights,
                                      const Architecture& architecture);

// The last part of a fused layer, which may end within an FP8 block.
inline constexpr std::string_view kLastOfFused = "kv_a_proj_with_mqa";

// Removes from `weights`, and returns, those that engines do not run with FP8
// blocks, together with those fused with them: parts of a fused layer must
// begin at a multiple of 128 rows, and K must be a multiple of 128.
std::vector<Weight> TakeUneven(const Model& model,
                               const Architecture& architecture,
                               std::vector<Weight>* weights);

// Gives weights the largest magnitudes of their inputs, fused ones that of all
// their members, and notes weights without. INVALID_ARGUMENT if an engine needs
// one.
absl::Status TakeInputs(const Selection& selection, ConversionPlan* plan);

// The tensors that a weight becomes, unless it is an expert of a stack that
// stays one. Sets its outputs.
std::vector<safetensors::Tensor> PartsOf(Weight* weight);
// The tensors of a stack that stays one; `experts` are in order. Sets their
// outputs.
std::vector<safetensors::Tensor> PartsOfStack(
    const std::vector<Weight*>& experts);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_WEIGHTS_H_
