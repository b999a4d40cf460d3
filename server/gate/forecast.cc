#include "server/gate/forecast.h"

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
// Steps of the part: where one in fifty is late it stays as it is. Whoever lets
// his calls be late on purpose gets it no lower than this.
constexpr double kAfterLate = 0.02;
constexpr double kAfterOther = kAfterLate / 49;
constexpr double kLeastPart = 0.75;

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
  const bool enough =
      busy_ >= kSample || (busy_ >= kShortSample && calls_ >= kCallsOfSample);
  if (!enough || served_ <= 0) return;
  const double sample = served_ / absl::ToDoubleSeconds(busy_);
  rate_ = rate_ == 0 ? sample : rate_ + kWeight * (sample - rate_);
  busy_ = absl::ZeroDuration();
  served_ = 0;
  calls_ = 0;
}

void Forecast::Learn(bool late) {
  const double step = late ? -kAfterLate : kAfterOther;
  part_ = std::clamp(part_ + step, kLeastPart, kPunctual);
}

double Forecast::Left(absl::Time now) const {
  if (begun_ == 0) return 0;
  const double done = rate_ * absl::ToDoubleSeconds(now - busy_since_);
  return std::max(backlog_ - done, backlog_ / 2);
}

absl::Duration Forecast::TimeFor(double work) const {
  return rate_ > 0 ? absl::Seconds(work / rate_) : absl::ZeroDuration();
}

}  // namespace quantd
