#include "server/gate/appointments.h"

#include <algorithm>
#include <random>

namespace quantd {
namespace {

// How far from his time one may come.
constexpr absl::Duration kEarly = absl::Milliseconds(10);
constexpr absl::Duration kLate = absl::Milliseconds(500);
// Who is later is not waited for.
constexpr absl::Duration kAwaited = absl::Milliseconds(30);
// The part of the server that is given away: calls are not served as evenly as
// times are given.
constexpr double kGivenAway = 0.95;
// What one more that was kept, or was not, counts for.
constexpr double kWeightOfOne = 0.05;
// A share that keeps less than this goes beside the line of others.
constexpr double kKeepsSome = 0.1;
// Of those that wait, how many are looked at for one of a share.
constexpr int kLooked = 256;
// How long a count of lines is good.
constexpr absl::Duration kCounted = absl::Milliseconds(50);

}  // namespace

Appointments::Appointments()
    : next_ticket_((uint64_t{std::random_device{}()} << 32) + 1) {}

void Appointments::Take(Times::iterator at, bool kept) {
  Share* const share = at->second.share;
  share->kept += kWeightOfOne * ((kept ? 1.0 : 0.0) - share->kept);
  by_ticket_.erase(at->first.second);
  by_time_.erase(at);
  --share->given;
}

void Appointments::Expire(absl::Time now) {
  while (!by_time_.empty() && by_time_.begin()->first.first + kLate < now) {
    Take(by_time_.begin(), false);
  }
  // What a share keeps is remembered for as long as its line goes.
  if (by_time_.empty() && !shares_.empty()) {
    absl::erase_if(shares_, [&](const auto& entry) {
      return entry.second.next + kFarthest < now;
    });
  }
}

void Appointments::CountLines(absl::Time now) {
  if (now < counted_ + kCounted) return;
  counted_ = now;
  lines_ = 0;
  for (const auto& [name, share] : shares_) {
    if (share.given != 0 && share.kept > kKeepsSome) ++lines_;
  }
}

Appointments::Given Appointments::Give(const std::string& name, double work,
                                       double rate, absl::Time earliest,
                                       absl::Time now) {
  Expire(now);
  // Names are peers' own: no more of them than of times.
  if (shares_.size() >= kMost) {
    absl::erase_if(shares_, [](const auto& e) { return e.second.given == 0; });
  }
  const auto found = shares_.try_emplace(name).first;
  Share& share = found->second;
  CountLines(now);
  const absl::Time time = std::max(share.next, earliest);
  if (time > now + kFarthest || by_time_.size() >= kMost ||
      share.given >= kMostOfShare) {
    return {now + kFarthest};
  }
  share.next =
      time + absl::Seconds(work * std::max(lines_, 1) / (rate * kGivenAway));
  const uint64_t ticket = next_ticket_++;
  by_time_.emplace(std::pair(time, ticket), Entry{work, &found->first, &share});
  by_ticket_.emplace(ticket, time);
  ++share.given;
  return {time, ticket};
}

bool Appointments::Keep(const std::string& share, uint64_t ticket,
                        absl::Time now) {
  Expire(now);
  const auto found = by_ticket_.find(ticket);
  if (found == by_ticket_.end()) return false;
  const auto at = by_time_.find({found->second, ticket});
  if (*at->second.name != share) return false;
  const bool on_time = now >= found->second - kEarly;
  Take(at, on_time);
  return on_time;
}

bool Appointments::KeepAny(const std::string& share, absl::Time now) {
  Expire(now);
  int looked = 0;
  for (auto at = by_time_.begin(); at != by_time_.end(); ++at) {
    if (at->first.first - kEarly > now || ++looked > kLooked) break;
    if (*at->second.name != share) continue;
    Take(at, true);
    return true;
  }
  return false;
}

double Appointments::Expected(absl::Duration within, absl::Time now) {
  Expire(now);
  double work = 0;
  int looked = 0;
  for (auto at = by_time_.lower_bound({now - kAwaited, 0});
       at != by_time_.end() && at->first.first <= now + within; ++at) {
    work += at->second.work * at->second.share->kept;
    if (++looked > kLooked) break;
  }
  return work;
}

}  // namespace quantd
