#include "client/tensors/groups.h"

namespace quantd {
absl::Span<const std::byte> GroupBytes(const TensorSpec& part,
                                       absl::Span<const std::byte> bytes,
                                       size_t i) {
  if (i + 1 >= part.group_offsets.size()) return {};
  const size_t begin = part.group_offsets[i];
  const size_t end = part.group_offsets[i + 1];
  if (begin > end || end > bytes.size()) return {};
  return bytes.subspan(begin, end - begin);
}

}  // namespace quantd
