#include "server/memory/regions.h"

#include <sys/random.h>

#include <utility>

namespace quantd {

std::string Regions::Add(std::shared_ptr<const Region> region) {
  std::string name(wire::kRegionNameBytes, '\0');
  if (getrandom(name.data(), name.size(), 0) !=
      static_cast<ssize_t>(name.size())) {
    return "";
  }
  absl::MutexLock lock(&mutex_);
  regions_.emplace(name, std::move(region));
  return name;
}

void Regions::Remove(const std::string& name) {
  std::shared_ptr<const Region> removed;  // unmapped without the lock
  absl::MutexLock lock(&mutex_);
  if (const auto it = regions_.find(name); it != regions_.end()) {
    removed = std::move(it->second);
    regions_.erase(it);
  }
}

std::shared_ptr<const Region> Regions::Find(const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  const auto it = regions_.find(name);
  return it == regions_.end() ? nullptr : it->second;
}

}  // namespace quantd
