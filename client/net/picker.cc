#include "client/net/picker.h"

#include <tuple>

namespace quantd::client {
namespace {

enum Rank { kGood, kAvoided, kLast, kNever };

}  // namespace

Choice Choose(absl::Span<const Candidate> candidates,
              std::chrono::system_clock::time_point now) {
  bool serving = false;
  bool unknown = false;
  for (const Candidate& c : candidates) {
    serving |= c.health == Health::kServing;
    unknown |= c.health == Health::kUnknown;
  }
  const auto rank = [&](const Candidate& c) {
    if (c.tried) return kNever;
    if (c.health == Health::kServing) {
      return c.avoid_until <= now ? kGood : kAvoided;
    }
    return c.health == Health::kDraining && !serving && !unknown ? kLast
                                                                 : kNever;
  };
  const auto order = [&](const Candidate& c) {
    return std::make_tuple(rank(c), c.bytes_under_way, c.last_pick);
  };
  const Candidate* best = nullptr;
  for (const Candidate& c : candidates) {
    if (rank(c) == kNever) continue;
    if (best == nullptr || order(c) < order(*best)) best = &c;
  }
  if (best != nullptr) {
    return {Choice::Kind::kTake, static_cast<size_t>(best - candidates.data()),
            rank(*best) != kGood};
  }
  return {!serving && unknown ? Choice::Kind::kWait : Choice::Kind::kNone};
}

}  // namespace quantd::client
