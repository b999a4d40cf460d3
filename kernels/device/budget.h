// How much memory payloads may take: by default, and what a plan takes of it.
#ifndef QUANTD_KERNELS_DEVICE_BUDGET_H_
#define QUANTD_KERNELS_DEVICE_BUDGET_H_

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "quantd/plan.h"

namespace quantd {

// With less a device could hold next to nothing.
inline constexpr size_t kLeastBudget = size_t{16} << 20;

// A quarter of the memory that this machine or control group has, 8 GiB at
// most.
size_t DefaultBudget();

// What a device's pools lend for staging, output and scratch of a plan.
size_t PayloadNeed(const Plan& plan);
// TooLargeError for a need, or that of a plan, of more than `most`, which is
// all that a device may lend.
absl::Status CheckPayload(size_t need, size_t most);
// Like CheckPayload for `memory`, with advice beside raising the budget.
absl::Status CheckMemory(std::string_view memory, std::string_view advice,
                         size_t need, size_t most);
absl::Status CheckPayload(const Plan& plan, size_t most);
// What an input of that many bytes is expected to need of a device's pools,
// before its plan is known: `output_sixteenths` is the output in 1/16 of the
// input. Covers every shape but extreme ones: columnwise data of a few rows,
// scales of a few long rows, many small groups.
size_t ExpectedPayload(size_t input_bytes, size_t output_sixteenths);

// The largest n, `cap` at most, that fits; 0 where none does. Whatever is
// smaller than what fits must fit, too.
size_t LargestThat(size_t cap, absl::FunctionRef<bool(size_t)> fits);

}  // namespace quantd

#endif  // QUANTD_KERNELS_DEVICE_BUDGET_H_
