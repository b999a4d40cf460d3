#include "kernels/device/budget.h"

#include <unistd.h>

#include <algorithm>

#include "fmt/format.h"
#include "kernels/device/backend.h"
#include "kernels/device/memory.h"
#include "kernels/device/memory_limit.h"
#include "quantd/field_error.h"

namespace quantd {
namespace {

// An allowance for the padding of scales, alignment and the amax, for usual
// shapes.
constexpr size_t kOutputSlack = 64 << 10;

}  // namespace

size_t DefaultBudget() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGE_SIZE);
  size_t memory = size_t{1} << 30;
  if (pages > 0 && page > 0) {
    memory = static_cast<size_t>(pages) * static_cast<size_t>(page);
  }
  memory = std::min(memory, ControlGroupMemoryLimit());
  return std::clamp(memory / 4, size_t{64} << 20, size_t{8} << 30);
}

size_t PayloadNeed(const Plan& plan) {
  return BlockPool::Charge(plan.input_bytes()) +
         BlockPool::Charge(plan.output_bytes()) +
         BlockPool::Charge(plan.scratch_bytes());
}

size_t Backend::PoolBytes(const Plan& plan, const LentMemory&) const {
  return PayloadNeed(plan);
}

absl::Status CheckPayload(const Plan& plan, size_t most) {
  return CheckPayload(PayloadNeed(plan), most);
}

absl::Status CheckPayload(size_t need, size_t most) {
  return CheckMemory("memory for input, output and scratch", "split the tensor",
                     need, most);
}

absl::Status CheckMemory(std::string_view memory, std::string_view advice,
                         size_t need, size_t most) {
  if (need <= most) return absl::OkStatus();
  return TooLargeError(
      memory,
      fmt::format("at most {} bytes ({} or raise the memory budget)", most,
                  advice),
      fmt::format("{} bytes", need), most);
}

size_t ExpectedPayload(size_t input_bytes, size_t output_sixteenths) {
  const size_t output = input_bytes / 16 * output_sixteenths + kOutputSlack;
  return BlockPool::Charge(input_bytes) + BlockPool::Charge(output);
}

size_t LargestThat(size_t cap, absl::FunctionRef<bool(size_t)> fits) {
  size_t low = 0;  // either fits(low) is true or low is 0
  size_t high = cap;
  while (low < high) {
    const size_t middle = high - (high - low) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace quantd
