#include "server/memory/regions.h"

#include <sys/random.h>

#include <utility>

namespace quantd {
namespace {

// Empty: the system has no random numbers.
std::string NewName() {
  std::string name(wire::kRegionNameBytes, '\0');
  const ssize_t n = getrandom(name.data(), name.size(), 0);
  return n == static_cast<ssize_t>(name.size()) ? name : "";
}

template <typename Map>
typename Map::mapped_type FindIn(const Map& map, const std::string& name) {
  const auto it = map.find(name);
  return it == map.end() ? nullptr : it->second;
}

template <typename Map>
typename Map::mapped_type TakeFrom(Map& map, const std::string& name) {
  const auto it = map.find(name);
  if (it == map.end()) return nullptr;
  auto taken = std::move(it->second);
  map.erase(it);
  return taken;
}

}  // namespace

std::string Regions::Add(std::shared_ptr<const Region> region) {
  std::string name = NewName();
  if (name.empty()) return name;
  absl::MutexLock lock(&mutex_);
  regions_.emplace(name, std::move(region));
  return name;
}

std::string Regions::Add(std::shared_ptr<const SharedEvent> event) {
  std::string name = NewName();
  if (name.empty()) return name;
  absl::MutexLock lock(&mutex_);
  events_.emplace(name, std::move(event));
  return name;
}

void Regions::Remove(const std::string& name) {
  // Unmapped and closed without the lock.
  std::shared_ptr<const Region> region;
  std::shared_ptr<const SharedEvent> event;
  absl::MutexLock lock(&mutex_);
  region = TakeFrom(regions_, name);
  event = TakeFrom(events_, name);
}

std::shared_ptr<const Region> Regions::Find(const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  return FindIn(regions_, name);
}

std::shared_ptr<const SharedEvent> Regions::FindEvent(
    const std::string& name) const {
  absl::MutexLock lock(&mutex_);
  return FindIn(events_, name);
}

}  // namespace quantd
