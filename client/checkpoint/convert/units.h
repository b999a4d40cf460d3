// Work on a model in units that do not depend on each other, by several
// threads.
#ifndef QUANTD_CLIENT_CHECKPOINT_CONVERT_UNITS_H_
#define QUANTD_CLIENT_CHECKPOINT_CONVERT_UNITS_H_

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "quantd/buffers.h"

namespace quantd::checkpoint {

// Calls `deed` once for each number below `units`, in order but `at_once` of
// them side by side, the caller's thread among those. `room` is `room_bytes` of
// memory that is the deed's alone while it runs, of `allocate` where there is
// one. After an error no further unit is begun. Returns the first error.
absl::Status DoUnits(
    size_t units, int at_once, size_t room_bytes,
    absl::FunctionRef<absl::Status(size_t unit, absl::Span<std::byte> room)>
        deed,
    const AllocateMemory& allocate = {});

}  // namespace quantd::checkpoint

#endif  // QUANTD_CLIENT_CHECKPOINT_CONVERT_UNITS_H_
