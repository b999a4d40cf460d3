#include "server/forecast.h"

#include <algorithm>

namespace quantd {
namespace {

// A sample of the rate is of so much time in which there was work, or of so
// many calls.
constexpr absl::Duration kSample = absl::Milliseconds(200);
constexpr absl::Duration kShortSample = absl::Milliseconds(50);
constexpr int kCallsOfSample = 16;
// What a new sample counts for.
constexpr double kWeight = 0.3;
// Who comes a little early or late comes at his time.
constexpr absl::Duration kEarly = absl::Milliseconds(20);
constexpr absl::Duration kGrace = absl::Milliseconds(500);
// Promises give away so much of what can be done.
constexpr double kPromised = 0.9;
constexpr double kMemory = 0.05;  // what one promise counts for, kept or not
constexpr absl::Duration kLeast = absl::Milliseconds(10);

}  // namespace

void Forecast::Begins(double work, absl::Time now) {
  if (begun_++ == 0) busy_since_ = now;
  backlog_ += work;
}

void Forecast::Ends(double work, bool served, absl::Time now) {
  backlog_ = std::max(0.0, backlog_ - work);
  busy_ += std::max(now - busy_since_, absl::ZeroDuration());
  busy_since_ = now;
  if (--begun_ == 0) backlog_ = 0;
  if (served) {
    served_ += work;
    ++calls_;
  }
  CloseSample();
}

void Forecast::CloseSample() {
  const bool enough =
      busy_ >= kSample || (busy_ >= kShortSample && calls_ >= kCallsOfSample);
  if (!enough || served_ <= 0) return;
  const double sample = served_ / absl::ToDoubleSeconds(busy_);
  rate_ = rate_ == 0 ? sample : rate_ + kWeight * (sample - rate_);
  busy_ = absl::ZeroDuration();
  served_ = 0;
  calls_ = 0;
}

absl::Duration Forecast::TimeFor(double work) const {
  return rate_ > 0 ? absl::Seconds(work / rate_) : absl::ZeroDuration();
}

double Forecast::Expected(absl::Time now, absl::Time until) const {
  double work = 0;
  for (auto it = promises_.lower_bound(now - kGrace);
       it != promises_.end() && it->first <= until; ++it) {
    work += it->second.work;
  }
  return work * kept_;
}

void Forecast::Drop(Promises::iterator promise) {
  const auto share = shares_.find(promise->second.share);
  if (--share->second.promises == 0) shares_.erase(share);
  promises_.erase(promise);
}

void Forecast::Expire(absl::Time now) {
  while (!promises_.empty() && promises_.begin()->first + kGrace < now) {
    kept_ -= kMemory * kept_;
    Drop(promises_.begin());
  }
}

bool Forecast::Redeem(const std::string& share, absl::Time now) {
  Expire(now);
  if (!shares_.contains(share)) return false;
  for (auto it = promises_.begin();
       it != promises_.end() && it->first <= now + kEarly; ++it) {
    if (it->second.share != share) continue;
    kept_ += kMemory * (1 - kept_);
    Drop(it);
    return true;
  }
  return false;
}

absl::Duration Forecast::Promise(const std::string& share, double work,
                                 absl::Duration earliest, absl::Time now) {
  Expire(now);
  const auto known = shares_.find(share);
  const absl::Time at =
      std::max({known == shares_.end() ? now : known->second.next,
                now + earliest, now + kLeast});
  if (at - now > kHorizon || promises_.size() >= kMostPromises) {
    return std::clamp(at - now, kHorizon, 2 * kHorizon);
  }
  Share& promised = shares_[share];
  ++promised.promises;
  promised.next =
      at + TimeFor(work) / kPromised * static_cast<double>(shares_.size());
  promises_.emplace(at, Given{work, share});
  return at - now;
}

}  // namespace quantd
