#include "client/checkpoint/plan.h"

#include <algorithm>

namespace quantd::checkpoint {

size_t SizeOfShape(std::string_view dtype, const std::vector<int64_t>& shape) {
  size_t bits = static_cast<size_t>(safetensors::BitsOf(dtype));
  for (const int64_t d : shape) bits *= static_cast<size_t>(d);
  return bits / 8;
}

size_t Weight::size_bytes() const {
  return SizeOfShape(source->stored.dtype, {rows, cols});
}

std::map<WeightFormat, size_t> ConversionPlan::formats() const {
  std::map<WeightFormat, size_t> counts;
  for (const FusedWeights& group : groups) {
    for (const Weight& w : group.weights) ++counts[w.layout->format];
  }
  if (!decoded.empty()) counts[WeightFormat::kBf16] = decoded.size();
  return counts;
}

size_t ConversionPlan::weights() const {
  size_t count = decoded.size();
  for (const FusedWeights& group : groups) count += group.weights.size();
  return count;
}

void Arrange(ConversionPlan* plan) {
  plan->bytes_out = 0;
  for (OutputShard& shard : plan->shards) {
    std::stable_sort(shard.tensors.begin(), shard.tensors.end(),
                     [](const auto& a, const auto& b) {
                       return safetensors::BitsOf(a.dtype) >
                              safetensors::BitsOf(b.dtype);
                     });
    for (const safetensors::Tensor& t : shard.tensors) {
      plan->bytes_out += t.size;
    }
  }
}

}  // namespace quantd::checkpoint
