// Finds the bytes of groups within the parts of a Result or a QuantizedTensor.
#ifndef QUANTD_CLIENT_TENSORS_GROUPS_H_
#define QUANTD_CLIENT_TENSORS_GROUPS_H_

#include <cstddef>

#include "absl/types/span.h"
#include "quantd/plan.h"

namespace quantd {

// The bytes of group `i`. Empty if the part does not have this group.
inline absl::Span<const std::byte> GroupBytes(const TensorSpec& part,
                                              absl::Span<const std::byte> bytes,
                                              size_t i) {
  if (i + 1 >= part.group_offsets.size()) return {};
  const size_t begin = part.group_offsets[i];
  const size_t end = part.group_offsets[i + 1];
  if (begin > end || end > bytes.size()) return {};
  return bytes.subspan(begin, end - begin);
}

}  // namespace quantd

#endif  // QUANTD_CLIENT_TENSORS_GROUPS_H_
