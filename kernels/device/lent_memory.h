// What lent memory is like, and its way into a block.
#ifndef QUANTD_KERNELS_DEVICE_LENT_MEMORY_H_
#define QUANTD_KERNELS_DEVICE_LENT_MEMORY_H_

#include <cstddef>

#include "absl/types/span.h"
#include "kernels/device/backend.h"
#include "quantd/plan.h"

namespace quantd {

bool Overlap(absl::Span<const std::byte> a, absl::Span<const std::byte> b);

// Whether an input overlaps an output.
bool InputsOverlapOutputs(const LentMemory& lent);

// Whether kernels may read the inputs where they lie: aligned for their
// elements, and not overlapped by what is written meanwhile.
bool InputsCanStay(const Plan& plan, const LentMemory& lent);

// Copies lent inputs into a block of plan.input_bytes(), from byte `first` of
// it to `end`.
void GatherInputs(const Plan& plan, const LentMemory& lent, size_t first,
                  size_t end, std::byte* block);

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_LENT_MEMORY_H_
