#include "server/gate/queue.h"

#include <algorithm>
#include <deque>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace quantd {
namespace {

// One that has waited for so long goes first; one of low priority, for four
// times as long. Without a patience an identity that holds much, or a low
// priority, could wait for ever.
constexpr absl::Duration kPatience = absl::Seconds(1);
// The part of a large one's bytes that may pass it. Without any a call of 4 KiB
// waits as long as one of 1 GiB; with all, that one waits for ever.
constexpr size_t kPassing = 4;

absl::Time EndOfPatience(const Queue::Waiting& w) {
  return w.since + (w.priority == Priority::kLow ? 4 : 1) * kPatience;
}

bool MayPass(const Queue::Waiting& w, const Queue::Waiting& larger) {
  return larger.passed + w.bytes <= larger.bytes / kPassing;
}

}  // namespace

// One that did not fit, and keeps these lanes for itself.
struct Queue::Blocked {
  Waiting* waiting;
  Lanes lanes;
};

// Waiters of one identity and priority, in order of arrival.
class Queue::Line {
 public:
  Line(size_t number, size_t held) : number_(number), held_(held) {}
  void Add(Waiters::iterator at) { waiters_.push_back(at); }
  Waiters::iterator TakeFirst() {
    const auto first = waiters_.front();
    waiters_.pop_front();
    return first;
  }
  bool empty() const { return waiters_.empty(); }
  void set_held(size_t held) { held_ = held; }
  // Numbers make equals different.
  auto place() const {
    return std::tuple(held_, (*waiters_.front())->since, number_);
  }

 private:
  const size_t number_;
  size_t held_;
  std::deque<Waiters::iterator> waiters_;
};

void Queue::Push(std::unique_ptr<Waiting> waiting) {
  waiting_.push_back(std::move(waiting));
}

std::optional<Queue::List> Queue::MakeRoom(const Waiting& newcomer, size_t most,
                                           size_t most_bytes, absl::Time now) {
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
    // The later of equals, the newcomer above all.
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

Queue::List Queue::Serve(absl::Time now, Held held, Take take) {
  List served;
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

  // Those without patience as they came, then each priority by shares.
  std::vector<Waiters::iterator> impatient;
  std::vector<Waiters::iterator> by_priority[3];
  for (auto at = waiting_.begin(); at != waiting_.end(); ++at) {
    (EndOfPatience(**at) <= now
         ? impatient
         : by_priority[static_cast<int>((*at)->priority)])
        .push_back(at);
  }
  for (const auto at : impatient) serve(at);
  for (const auto& waiters : by_priority) {
    std::deque<Line> lines;
    absl::flat_hash_map<std::string, Line*> by_identity;
    for (const auto at : waiters) {
      const std::string& identity = (*at)->identity;
      Line* line = identity.empty() ? nullptr : by_identity[identity];
      if (line == nullptr) {
        line = &lines.emplace_back(lines.size(), held(identity));
        if (!identity.empty()) by_identity[identity] = line;
      }
      line->Add(at);
    }
    const auto before = [](const Line* a, const Line* b) {
      return a->place() < b->place();
    };
    std::set<Line*, decltype(before)> order(before);
    for (Line& line : lines) order.insert(&line);
    while (!order.empty()) {
      Line* const line = order.extract(order.begin()).value();
      const auto at = line->TakeFirst();
      const std::string identity = (*at)->identity;
      serve(at);
      if (line->empty()) continue;
      line->set_held(held(identity));
      order.insert(line);
    }
  }
  return served;
}

Queue::List Queue::RemoveIf(absl::FunctionRef<bool(const Waiting&)> condition) {
  List removed;
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    if (!condition(**at)) {
      ++at;
      continue;
    }
    removed.push_back(std::move(*at));
    at = waiting_.erase(at);
  }
  return removed;
}

size_t Queue::BytesBefore(Priority priority) const {
  size_t bytes = 0;
  for (const auto& w : waiting_) {
    if (w->priority <= priority) bytes += w->bytes;
  }
  return bytes;
}

absl::Time Queue::oldest() const {
  return waiting_.empty() ? absl::InfiniteFuture() : waiting_.front()->since;
}

absl::Time Queue::NextChange(absl::Time now) const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& w : waiting_) {
    next = std::min(next, w->until);
    if (EndOfPatience(*w) > now) next = std::min(next, EndOfPatience(*w));
  }
  return next;
}

}  // namespace quantd
