// Memory for payloads: the default budget, and the memory that a plan needs.
#ifndef QUANTD_KERNELS_DEVICE_BUDGET_H_
#define QUANTD_KERNELS_DEVICE_BUDGET_H_

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "quantd/plan.h"

namespace quantd {

// The smallest budget with which a device can work.
inline constexpr size_t kLeastBudget = size_t{16} << 20;

// A quarter of the memory of this machine or control group, but at least 64 MiB
// and at most 8 GiB.
size_t DefaultBudget();

// Bytes of staging, output and scratch that a plan takes from a device's pools.
size_t PayloadNeed(const Plan& plan);
// TooLargeError if `need`, or the need of a plan, exceeds `most`, the most that
// a device may lend.
absl::Status CheckPayload(size_t need, size_t most);
// Like CheckPayload, but the error names `memory`, and gives `advice` besides
// that to raise the budget.
absl::Status CheckMemory(std::string_view memory, std::string_view advice,
                         size_t need, size_t most);
absl::Status CheckPayload(const Plan& plan, size_t most);
// An estimate of the memory of a device's pools that an input of `input_bytes`
// will need, before its plan is known. `output_sixteenths` is the size of the
// output in sixteenths of the input. The estimate is too low only for extreme
// shapes: columnwise data of a few rows, scales of a few long rows, many small
// groups.
size_t ExpectedPayload(size_t input_bytes, size_t output_sixteenths);

// The largest n <= `cap` for which fits(n) is true; 0 if no n fits. `fits` must
// be monotonic: if it is true for n, it is true for all smaller numbers.
size_t LargestThat(size_t cap, absl::FunctionRef<bool(size_t)> fits);

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_BUDGET_H_
