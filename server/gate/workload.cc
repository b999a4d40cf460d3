#include "server/gate/workload.h"

#include <algorithm>

namespace quantd {
namespace {

// The busy time of one sample. A shorter one takes a single call for the rate.
constexpr absl::Duration kSample = absl::Milliseconds(100);
// What a call costs beside its bytes. Without it small calls make the server
// look slow, and large ones are refused.
constexpr double kOfCall = 32 << 10;

double WorkOf(size_t bytes) { return static_cast<double>(bytes) + kOfCall; }

}  // namespace

Workload::Coming::iterator Workload::Comes(size_t bytes, absl::Time now) {
  return coming_.emplace(now + 2 * TimeFor(0, bytes, now), WorkOf(bytes));
}

void Workload::Begins(size_t bytes, absl::Time now) {
  if (begun_++ == 0) busy_since_ = now;
  here_ += WorkOf(bytes);
}

void Workload::Ends(size_t bytes, bool served, absl::Time now) {
  here_ = --begun_ == 0 ? 0 : std::max(0.0, here_ - WorkOf(bytes));
  busy_ += std::max(now - busy_since_, absl::ZeroDuration());
  busy_since_ = std::max(now, busy_since_);
  if (served) served_ += WorkOf(bytes);
  if (busy_ < kSample || served_ == 0) return;
  const double sample = served_ / absl::ToDoubleSeconds(busy_);
  // By itself, one slow sample would refuse those who come after it.
  rate_ = rate_ == 0 ? sample : (rate_ + sample) / 2;
  busy_ = absl::ZeroDuration();
  served_ = 0;
}

absl::Duration Workload::TimeFor(size_t waiting, size_t own,
                                 absl::Time now) const {
  if (rate_ == 0) return absl::ZeroDuration();
  double work = static_cast<double>(waiting) + WorkOf(own);
  if (begun_ != 0) {
    // What runs is done in part: in half at most, or what hangs would be taken
    // for done.
    const double done = rate_ * absl::ToDoubleSeconds(now - busy_since_);
    work += std::max(here_ - done, here_ / 2);
  }
  for (auto c = coming_.upper_bound(now); c != coming_.end(); ++c) {
    work += c->second;
  }
  return absl::Seconds(work / rate_);
}

bool Workload::IsIdle(absl::Time now) const {
  return begun_ == 0 && coming_.upper_bound(now) == coming_.end();
}

absl::Duration Workload::TimeForAlone(size_t own) const {
  return rate_ == 0 ? absl::ZeroDuration() : absl::Seconds(WorkOf(own) / rate_);
}

}  // namespace quantd
