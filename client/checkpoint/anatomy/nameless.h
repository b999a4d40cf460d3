// Finds layers that engines build without a name, so that no list of modules
// can name them.
#ifndef QUANTD_CLIENT_CHECKPOINT_ANATOMY_NAMELESS_H_
#define QUANTD_CLIENT_CHECKPOINT_ANATOMY_NAMELESS_H_

#include <string_view>

#include "absl/status/status.h"
#include "client/checkpoint/model.h"
#include "client/checkpoint/plan.h"

namespace quantd::checkpoint {

// The engine that builds the module without a name and, in that dialect,
// quantizes it unless the list of unquantized modules has an empty name; "" if
// none does.
std::string_view NamelessIn(const Model& model, std::string_view module,
                            Dialect dialect);

// Sets plan->leaves_nameless. INVALID_ARGUMENT if an engine would not read
// layers without a name as the plan writes them: quantized or not, and in which
// format; or if it may look for an unquantized layer under a name that
// DeepSeek's list does not have. `plan` must already have `groups` and
// `left_out`.
absl::Status CheckNameless(const Model& model, ConversionPlan* plan);

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_ANATOMY_NAMELESS_H_
