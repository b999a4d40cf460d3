// Experts that a model stores as one tensor of three dimensions.
#ifndef QUANTD_CLIENT_CHECKPOINT_STACKED_H_
#define QUANTD_CLIENT_CHECKPOINT_STACKED_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"

namespace quantd::checkpoint {

// Whether the tensor is such a stack, by its shape and name.
bool IsStacked(const ModelTensor& tensor);

// Whether engines take a single quantized expert with that last name in a model
// of that type.
bool IsExpertOfEngines(std::string_view model_type, std::string_view leaf);

// Returns the weights of a stack, without layout and outputs, expert by expert
// and named as if every expert were a module of its own. Unless `whole`, the
// gate and up parts of an expert are separate. INVALID_ARGUMENT says why they
// cannot be told apart.
absl::StatusOr<std::vector<Weight>> Unstack(const Model& model,
                                            const ModelTensor& tensor,
                                            bool whole);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_STACKED_H_
