// An option that would change nothing is a mistake, and is refused.
#ifndef QUANTD_KERNELS_PLAN_IDLE_OPTIONS_H_
#define QUANTD_KERNELS_PLAN_IDLE_OPTIONS_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "quantd/options.h"
#include "quantd/sign_mask.h"

namespace quantd {

// Of options that CheckSupport has let pass. `cols` is K.
absl::Status CheckIdleOptions(const QuantizeOptions& options, int64_t cols);

// A dimension or a mask of a rotation that there is not. `expected` says what
// would make it one.
absl::Status CheckNoRotation(int dimension, const std::optional<SignMask>& mask,
                             std::string_view expected);

}  // namespace quantd

#endif  // QUANTD_KERNELS_PLAN_IDLE_OPTIONS_H_
