#include "server/memory/regions.h"

#include <sys/random.h>

namespace quantd {

std::string Regions::Add(Shared shared) {
  std::string name(wire::kRegionNameBytes, '\0');
  if (getrandom(name.data(), name.size(), 0) !=
      static_cast<ssize_t>(name.size())) {
    return "";
  }
  absl::MutexLock lock(&mutex_);
  shared_.emplace(name, std::move(shared));
  return name;
}

void Regions::Remove(const std::string& name) {
  Shared taken;  // unmapped and closed without the lock
  absl::MutexLock lock(&mutex_);
  const auto it = shared_.find(name);
  if (it == shared_.end()) return;
  taken = std::move(it->second);
  shared_.erase(it);
}

Regions::Shared Regions::Get(const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  const auto it = shared_.find(name);
  return it == shared_.end() ? Shared() : it->second;
}

}  // namespace quantd
