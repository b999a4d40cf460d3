// Memory for payloads: the default budget, and what a plan needs of it.
#ifndef QUANTD_KERNELS_DEVICE_BUDGET_H_
#define QUANTD_KERNELS_DEVICE_BUDGET_H_

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "quantd/plan.h"

namespace quantd {

// The smallest budget; less is of no use to a device.
inline constexpr size_t kLeastBudget = size_t{16} << 20;

// A quarter of the memory of this machine or control group, 8 GiB at most.
size_t DefaultBudget();

// Bytes of staging, output and scratch that a plan takes from a device's pools.
size_t PayloadNeed(const Plan& plan);
// TooLargeError if a need, or that of a plan, exceeds `most`, all that a device
// may lend.
absl::Status CheckPayload(size_t need, size_t most);
// CheckPayload for the memory called `memory`; the error also gives `advice`,
// in addition to raising the budget.
absl::Status CheckMemory(std::string_view memory, std::string_view advice,
                         size_t need, size_t most);
absl::Status CheckPayload(const Plan& plan, size_t most);
// An estimate of what an input of that many bytes will need of a device's
// pools, before its plan is known: `output_sixteenths` is the output in
// sixteenths of the input. Enough for all but extreme shapes: columnwise data
// of a few rows, scales of a few long rows, many small groups.
size_t ExpectedPayload(size_t input_bytes, size_t output_sixteenths);

// The largest n <= `cap` that fits; 0 if none does. `fits` must be monotonic:
// everything smaller than a fitting n fits.
size_t LargestThat(size_t cap, absl::FunctionRef<bool(size_t)> fits);

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_BUDGET_H_
