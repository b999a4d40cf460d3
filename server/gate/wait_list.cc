#include "server/gate/wait_list.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace quantd {
namespace {

// A call that has waited this long goes first; with low priority, after four
// times as long. Without this an identity that holds much, or a low priority,
// could wait for ever.
constexpr absl::Duration kPatience = absl::Seconds(1);
// Smaller calls with 1/kPassing of a large call's bytes in all may pass it. If
// none could pass, a call of 4 KiB would wait as long as one of 1 GiB; without
// the limit, the large one would wait for ever.
constexpr size_t kPassing = 4;

absl::Time EndOfPatience(const WaitList::Waiting& w) {
  return w.since + (w.priority == Priority::kLow ? 4 : 1) * kPatience;
}

bool MayPass(const WaitList::Waiting& w, const WaitList::Waiting& larger) {
  return larger.passed + w.bytes <= larger.bytes / kPassing;
}

}  // namespace

std::optional<WaitList::List> WaitList::MakeRoom(const Waiting& newcomer,
                                                 size_t most, size_t most_bytes,
                                                 absl::Time now) {
  absl::flat_hash_map<std::string, size_t> bytes_of;
  std::vector<const Waiting*> all;
  size_t bytes = 0;
  for (const auto& w : waiting_) all.push_back(w.get());
  all.push_back(&newcomer);
  for (const Waiting* w : all) {
    bytes_of[w->identity] += w->bytes;
    bytes += w->bytes;
  }
  // Higher is worse.
  const auto rank = [&](const Waiting* w) {
    return std::tuple(now < EndOfPatience(*w), w->priority,
                      w->identity.empty() ? w->bytes : bytes_of[w->identity],
                      w->since);
  };
  std::vector<const Waiting*> leave;
  while (all.size() > 1 && (all.size() > most || bytes > most_bytes)) {
    // Among equals the later one leaves, so the newcomer does first.
    auto worst = all.begin();
    for (auto it = all.begin(); it != all.end(); ++it) {
      if (rank(*it) >= rank(*worst)) worst = it;
    }
    if (*worst == &newcomer) return std::nullopt;
    bytes_of[(*worst)->identity] -= (*worst)->bytes;
    bytes -= (*worst)->bytes;
    leave.push_back(*worst);
    all.erase(worst);
  }
  return RemoveIf([&](const Waiting& w) {
    return std::find(leave.begin(), leave.end(), &w) != leave.end();
  });
}

WaitList::List WaitList::Serve(absl::Time now, Held held, Take take) {
  List served;
  // Calls that did not fit and reserve these lanes.
  struct Blocked {
    Waiting* waiting;
    Lanes lanes;
  };
  std::vector<Blocked> blocked;
  const auto serve = [&](Waiters::iterator at) {
    Waiting& w = **at;
    Lanes kept = 0, all = 0;
    for (const Blocked& b : blocked) {
      all |= b.lanes;
      if (!MayPass(w, *b.waiting)) kept |= b.lanes;
    }
    const Lanes lacks = take(w, kept);
    if (lacks != 0) {
      if ((lacks & ~all) != 0) blocked.push_back({&w, lacks});
      return;
    }
    for (const Blocked& b : blocked) {
      if (MayPass(w, *b.waiting)) b.waiting->passed += w.bytes;
    }
    served.push_back(std::move(*at));
    waiting_.erase(at);
  };

  // Rank, bytes held by the identity, arrival. Calls whose patience is over go
  // first, in order of arrival.
  using Place = std::tuple<int, size_t, size_t>;
  using Turn = std::pair<Place, Waiters::iterator>;
  const auto later = [](const Turn& a, const Turn& b) {
    return a.first > b.first;
  };
  std::priority_queue<Turn, std::vector<Turn>, decltype(later)> turns(later);
  size_t number = 0;
  for (auto at = waiting_.begin(); at != waiting_.end(); ++at) {
    const bool first = EndOfPatience(**at) <= now;
    turns.push({{first ? -1 : static_cast<int>((*at)->priority),
                 first ? 0 : held((*at)->identity), number++},
                at});
  }
  while (!turns.empty()) {
    auto [place, at] = turns.top();
    turns.pop();
    auto& [rank, share, arrival] = place;
    // Another call of the identity may have been served since.
    const size_t holds = rank < 0 ? 0 : held((*at)->identity);
    if (std::exchange(share, holds) == holds) {
      serve(at);
    } else {
      turns.push({place, at});
    }
  }
  return served;
}

WaitList::List WaitList::RemoveIf(
    absl::FunctionRef<bool(const Waiting&)> condition) {
  List removed;
  waiting_.remove_if([&](std::unique_ptr<Waiting>& w) {
    const bool removes = condition(*w);
    if (removes) removed.push_back(std::move(w));
    return removes;
  });
  return removed;
}

size_t WaitList::BytesBefore(Priority priority) const {
  size_t bytes = 0;
  for (const auto& w : waiting_) {
    if (w->priority <= priority) bytes += w->bytes;
  }
  return bytes;
}

absl::Time WaitList::oldest() const {
  return waiting_.empty() ? absl::InfiniteFuture() : waiting_.front()->since;
}

absl::Time WaitList::NextChange(absl::Time now) const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& w : waiting_) {
    next = std::min(next, w->until);
    for (const absl::Time change : {EndOfPatience(*w), w->exempt}) {
      if (change > now) next = std::min(next, change);
    }
  }
  return next;
}

}  // namespace quantd
