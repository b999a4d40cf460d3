// Refuses options that would have no effect, because setting one is a mistake.
#ifndef QUANTD_KERNELS_PLAN_IDLE_OPTIONS_H_
#define QUANTD_KERNELS_PLAN_IDLE_OPTIONS_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "quantd/options.h"
#include "quantd/sign_mask.h"

namespace quantd {

// Checks options that CheckSupport has accepted. `cols` is K.
absl::Status CheckIdleOptions(const QuantizeOptions& options, int64_t cols);

// Refuses a dimension or a mask without a rotation. `expected` describes what
// would make the option legal.
absl::Status CheckNoRotation(int dimension, const std::optional<SignMask>& mask,
                             std::string_view expected);

}  // namespace quantd

#endif  // QUANTD_KERNELS_PLAN_IDLE_OPTIONS_H_
