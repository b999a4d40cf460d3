#include "kernels/cpu/cpu_device.h"

namespace quantd::cpu {

std::shared_ptr<const Signs> SignCache::Get(const SignMask& mask,
                                            int dimension) {
  constexpr size_t kLimit = 1024;
  std::lock_guard lock(mutex_);
  const Key key = {mask.words, dimension};
  if (const auto it = entries_.find(key); it != entries_.end()) {
    ++hits;
    return it->second;
  }
  ++misses;
  const std::vector<float> matrix = RhtMatrix(mask, dimension);
  auto signs = std::make_shared<Signs>(dimension);
  // Column 0 of H is all ones, so column 0 of R is the scaled signs.
  for (int i = 0; i < dimension; ++i) (*signs)[i] = matrix[i * dimension];
  if (entries_.size() >= kLimit) entries_.clear();
  entries_[key] = signs;
  return signs;
}

}  // namespace quantd::cpu
