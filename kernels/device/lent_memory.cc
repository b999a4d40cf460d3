#include "kernels/device/lent_memory.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace quantd {
namespace {

uintptr_t AddressOf(absl::Span<const std::byte> bytes) {
  return reinterpret_cast<uintptr_t>(bytes.data());
}

}  // namespace

bool Overlap(absl::Span<const std::byte> a, absl::Span<const std::byte> b) {
  return AddressOf(a) < AddressOf(b) + b.size() &&
         AddressOf(b) < AddressOf(a) + a.size();
}

bool InputsOverlapOutputs(const LentMemory& lent) {
  for (const absl::Span<const std::byte> input : lent.inputs) {
    for (const absl::Span<std::byte> output : lent.outputs) {
      if (Overlap(input, output)) return true;
    }
  }
  return false;
}

bool InputsCanStay(const Plan& plan, const LentMemory& lent) {
  for (size_t i = 0; i < lent.inputs.size(); ++i) {
    const size_t element = SizeOf(plan.inputs()[i].dtype);
    if (AddressOf(lent.inputs[i]) % element != 0) return false;
  }
  return !InputsOverlapOutputs(lent);
}

void GatherInputs(const Plan& plan, const LentMemory& lent, size_t first,
                  size_t end, std::byte* block) {
  for (size_t i = 0; i < lent.inputs.size(); ++i) {
    const size_t offset = plan.inputs()[i].offset;
    const size_t from = std::max(first, offset);
    const size_t to = std::min(end, offset + lent.inputs[i].size());
    if (from >= to) continue;
    std::memcpy(block + from, lent.inputs[i].data() + (from - offset),
                to - from);
  }
}

}  // namespace quantd
