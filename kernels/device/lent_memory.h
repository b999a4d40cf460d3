// Properties of lent memory, and copying it into a block.
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

// Whether kernels may read the inputs in place: they are aligned for their
// elements, and no output overlaps them.
bool InputsCanStay(const Plan& plan, const LentMemory& lent);

// Copies bytes [first, end) of the packed inputs (plan.input_bytes() bytes) to
// the same offsets of `block`.
void GatherInputs(const Plan& plan, const LentMemory& lent, size_t first,
                  size_t end, std::byte* block);

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_LENT_MEMORY_H_
