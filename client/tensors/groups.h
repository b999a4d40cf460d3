// Finds the bytes of groups within the parts of a Result or a QuantizedTensor.
#ifndef QUANTD_CLIENT_TENSORS_GROUPS_H_
#define QUANTD_CLIENT_TENSORS_GROUPS_H_

#include <cstddef>

#include "absl/types/span.h"
#include "quantd/plan.h"

namespace quantd {

// The bytes of group `i`. Empty if the part does not have this group.
absl::Span<const std::byte> GroupBytes(const TensorSpec& part,
                                       absl::Span<const std::byte> bytes,
                                       size_t i);

}  // namespace quantd

#endif  // QUANTD_CLIENT_TENSORS_GROUPS_H_
