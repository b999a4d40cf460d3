#include "server/net/refusal_pace.h"

#include <algorithm>

namespace quantd {
namespace {

// Hosts that are remembered before those are looked for that may be forgotten.
constexpr size_t kManyHosts = 1024;

}  // namespace

absl::Time RefusalPace::Next(const std::string& host, absl::Time now) {
  const absl::Duration kEach = absl::Seconds(1) / kPerSecond;
  if (exempt_ && exempt_(host)) return now;
  absl::MutexLock lock(&mutex_);
  if (paid_until_.size() > kManyHosts) {
    absl::erase_if(paid_until_,
                   [&](const auto& entry) { return entry.second <= now; });
  }
  absl::Time& paid_until = paid_until_[host];
  const absl::Time latest = now + kAtOnce * kEach + kLongest;
  paid_until = std::min(std::max(paid_until, now) + kEach, latest);
  return std::max(now, paid_until - kAtOnce * kEach);
}

size_t RefusalPace::remembered() const {
  absl::MutexLock lock(&mutex_);
  return paid_until_.size();
}

}  // namespace quantd
