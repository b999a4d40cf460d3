// The outputs of a plan as a Result holds them.
#ifndef QUANTD_CLIENT_PARTS_H_
#define QUANTD_CLIENT_PARTS_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "kernels/plan.h"

namespace quantd {

// plan.outputs(); where the plan is grouped, every one with group_offsets:
// also those that hold one number, one row or one line's number a group, which
// the plan leaves out because they can be counted off.
std::vector<TensorSpec> PartsOf(const Plan& plan);

// The bytes of group `i`; empty where the part has no such group.
absl::Span<const std::byte> GroupBytes(const TensorSpec& part,
                                       absl::Span<const std::byte> bytes,
                                       size_t i);

}  // namespace quantd

#endif  // QUANTD_CLIENT_PARTS_H_
