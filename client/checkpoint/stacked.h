// Reads experts that a model stores as one tensor of three dimensions, called a
// stack.
#ifndef QUANTD_CLIENT_CHECKPOINT_STACKED_H_
#define QUANTD_CLIENT_CHECKPOINT_STACKED_H_

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"

namespace quantd::checkpoint {

// Whether the tensor is a stack of experts, judged by its shape and name.
bool IsStacked(const ModelTensor& tensor);

// Whether engines support quantized experts whose names end with `leaf` in
// models of that type.
bool IsExpertOfEngines(std::string_view model_type, std::string_view leaf);

// Whether transformers stores the experts of that model type as stacks, and
// does not join single experts to stacks when it loads a model.
bool LoadsStacksAlone(std::string_view model_type);

// Joins single experts to the stacks in which models of that type store them,
// if the stacks are known.
void StackAgain(std::string_view model_type,
                std::vector<DecodedWeight>* decoded);

// Returns the weights of a stack, expert by expert, without layout and outputs.
// If `whole`, each is a whole expert with the name of the stack. Otherwise gate
// and up are separate weights, named as if each expert had its own modules.
// INVALID_ARGUMENT if the stack cannot be split; the message gives the reason.
absl::StatusOr<std::vector<Weight>> Unstack(const Model& model,
                                            const ModelTensor& tensor,
                                            bool whole);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_STACKED_H_
