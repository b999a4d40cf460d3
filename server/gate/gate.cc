#include "server/gate/gate.h"

#include <algorithm>
#include <utility>

namespace quantd {
namespace {

// Part of the time left before a deadline that the measured rate may fill. The
// rest allows for what the rate does not tell: the call's own network, and how
// much calls differ. With 1.0 half of the admitted calls missed their
// deadlines.
constexpr double kPartOfTime = 0.7;

// An identity that holds more than its fair share of an account must leave
// 1/kLeaves of the account to others. Without this, an identity that takes no
// replies would keep everybody waiting until those replies are cancelled. With
// kLeaves 4, too little was left for two requests of 16 MiB that others had
// under way.
constexpr size_t kLeaves = 2;

// A call that needs at most 1/kNegligible of the free bytes is exempt from
// kLeaves. Without this, the small calls of an identity would wait for its own
// large ones.
constexpr size_t kNegligible = 64;

// Lanes of a device. Devices beyond 31 share lanes, which only makes more
// waiters wait for each other.
WaitList::Lanes BytesLane(size_t device) {
  return WaitList::Lanes{1} << device % 31;
}
WaitList::Lanes PlacesLane(size_t device) {
  return WaitList::Lanes{1} << (31 + device % 31);
}
// Lane of a waiter whose device is lost or whose identity has used up its
// share: it reserves nothing.
constexpr WaitList::Lanes kNoLane = WaitList::Lanes{1} << 63;

std::vector<size_t> AccountsOf(const Gate::Limits& limits) {
  std::vector<size_t> accounts = {limits.receiving, limits.heads};
  accounts.insert(accounts.end(), limits.devices.begin(), limits.devices.end());
  accounts.insert(accounts.end(), limits.streams.begin(), limits.streams.end());
  accounts.resize(2 + 2 * limits.devices.size(), 0);
  return accounts;
}

}  // namespace

struct Gate::Asking : WaitList::Waiting {
  Asking(Waiter* to_tell, size_t how_many, absl::Time when_over, int where = -1,
         bool streams = false)
      : waiter(to_tell),
        deadline(when_over),
        device(where),
        is_stream(streams) {
    bytes = how_many;
  }

  Waiter* const waiter;
  const absl::Time deadline;
  const int device;
  const bool is_stream;
  Lease lease;
};

std::shared_ptr<Gate> Gate::Create(Limits limits) {
  return std::shared_ptr<Gate>(new Gate(std::move(limits)));
}

Gate::Gate(Limits limits)
    : limits_(std::move(limits)),
      accounts_(std::make_shared<Accounts>(AccountsOf(limits_))),
      available_(limits_.devices.size(), Availability::kTakesWork) {}

Gate::Answer Gate::AdmitMessage(const Ask& ask, absl::Time now, Waiter* waiter,
                                Lease* lease) {
  lease->has_.identity = ask.identity;
  lease->has_.priority = ask.priority;
  return Enter(&messages_,
               std::make_unique<Asking>(waiter, ask.bytes, ask.deadline), now,
               lease);
}

Lease Gate::Track(size_t bytes, std::string identity) {
  Lease lease;
  lease.has_.accounts = accounts_;
  lease.has_.identity = std::move(identity);
  lease.HoldReceiving(bytes);
  return lease;
}

Gate::Answer Gate::AdmitHead(size_t bytes, absl::Time deadline, absl::Time now,
                             Waiter* waiter, Lease* lease) {
  return Enter(&heads_, std::make_unique<Asking>(waiter, bytes, deadline), now,
               lease);
}

Gate::Answer Gate::AdmitJob(size_t bytes, int device, bool is_stream,
                            absl::Time deadline, absl::Time now, Waiter* waiter,
                            Lease* lease) {
  return Enter(
      &payloads_,
      std::make_unique<Asking>(waiter, bytes, deadline, device, is_stream), now,
      lease);
}

bool Gate::WouldBeLate(size_t bytes, size_t before, absl::Time deadline,
                       absl::Time now) const {
  if (deadline == absl::InfiniteFuture()) return false;
  // An idle server always admits a call: a low rate is measured again only if
  // something runs.
  if (before == 0 && accounts_->workload.IsIdle(now)) return false;
  return accounts_->workload.TimeFor(before, bytes, now) >
         kPartOfTime * (deadline - now);
}

bool Gate::HasDevice(int device) const {
  if (device >= 0) return available_[device] != Availability::kLost;
  return std::any_of(available_.begin(), available_.end(),
                     [](Availability a) { return a != Availability::kLost; });
}

bool Gate::LeavesEnough(Budget::Account account, const Asking& asking,
                        const Lease& lease, absl::Time now) const {
  const Budget& budget = accounts_->budget;
  const size_t held = budget.held_by(lease.has_.identity, account);
  const size_t limit = budget.limit(account);
  const size_t sharers = std::max<size_t>(1, budget.holders());
  // The first two: the identity holds no more of the account than the average
  // one, or stays within its fair share.
  return held * sharers <= budget.used(account) ||
         held + asking.bytes <= limit / sharers ||
         asking.bytes > limit - limit / kLeaves || now >= asking.exempt ||
         asking.bytes <= budget.Room(account) / kNegligible ||
         asking.bytes + limit / kLeaves <= budget.Room(account);
}

WaitList::Lanes Gate::Take(const WaitList* waiters, const Asking& asking,
                           Lease* lease, WaitList::Lanes kept, absl::Time now) {
  if (waiters == &payloads_) return TakePayload(asking, lease, kept, now);
  const bool is_message = waiters == &messages_;
  const Budget::Account account =
      is_message ? Accounts::kReceiving : Accounts::kHeads;
  if (!LeavesEnough(account, asking, *lease, now)) return kNoLane;
  if ((kept & 1) != 0 || !accounts_->budget.Fits(account, asking.bytes)) {
    return 1;
  }
  accounts_->Set(account, lease->has_.identity,
                 is_message ? &lease->has_.receiving : &lease->has_.head,
                 asking.bytes);
  if (is_message)
    lease->has_.coming = accounts_->workload.Comes(asking.bytes, now);
  return 0;
}

WaitList::Lanes Gate::TakePayload(const Asking& asking, Lease* lease,
                                  WaitList::Lanes kept, absl::Time now) {
  WaitList::Lanes lacks = 0;
  int best = -1;
  for (size_t k = 0; k < accounts_->devices; ++k) {
    const size_t i = (next_device_ + k) % accounts_->devices;
    if (asking.device >= 0 && i != static_cast<size_t>(asking.device)) continue;
    if (available_[i] != Availability::kTakesWork) continue;
    const Budget::Account payload = accounts_->PayloadOf(i);
    if (asking.bytes > accounts_->budget.limit(payload) ||
        !LeavesEnough(payload, asking, *lease, now)) {
      continue;
    }
    if (asking.is_stream &&
        ((kept & PlacesLane(i)) != 0 ||
         !accounts_->budget.Fits(accounts_->PlacesOf(i), 1))) {
      lacks |= PlacesLane(i);
    } else if ((kept & BytesLane(i)) != 0 ||
               !accounts_->budget.Fits(payload, asking.bytes)) {
      lacks |= BytesLane(i);
    } else if (best < 0 ||
               accounts_->budget.Room(payload) >
                   accounts_->budget.Room(accounts_->PayloadOf(best))) {
      best = static_cast<int>(i);
    }
  }
  if (best < 0) return lacks | kNoLane;
  next_device_ = (best + 1) % accounts_->devices;
  lease->has_.device = best;
  accounts_->Set(accounts_->PayloadOf(best), lease->has_.identity,
                 &lease->has_.payload, asking.bytes);
  if (asking.is_stream)
    accounts_->budget.Take(accounts_->PlacesOf(best), "", 1);
  lease->has_.place = asking.is_stream;
  return 0;
}

Gate::Answer Gate::Enter(WaitList* waiters, std::unique_ptr<Asking> asking,
                         absl::Time now, Lease* lease) {
  absl::MutexLock lock(&accounts_->mutex);
  accounts_->Advance(now);
  if (lease->has_.accounts == nullptr) lease->has_.accounts = accounts_;
  asking->identity = lease->has_.identity;
  asking->priority = lease->has_.priority;
  asking->since = now;
  asking->until = std::min(asking->deadline, now + limits_.max_wait);
  // Without this, an identity that holds much would never get its turn in a
  // crowd.
  asking->exempt = now + limits_.max_wait / 2;
  if (stopped_) return {Outcome::kStopped};
  if (waiters == &payloads_ && !HasDevice(asking->device)) {
    return {Outcome::kNoDevice};
  }
  if (waiters == &messages_ &&
      WouldBeLate(asking->bytes, messages_.BytesBefore(asking->priority),
                  asking->deadline, now)) {
    return {Outcome::kTooLate, RetryAfterLocked(now)};
  }
  if (waiters->empty() && Take(waiters, *asking, lease, 0, now) == 0) {
    return {Outcome::kGranted};
  }
  // A request that can never fit would keep all others waiting. (A payload that
  // fits no device at work now may fit one that comes back.)
  if (waiters != &payloads_ &&
      asking->bytes >
          (waiters == &messages_ ? limits_.receiving : limits_.heads)) {
    return {Outcome::kBusy, RetryAfterLocked(now)};
  }
  if (waiters == &messages_) {
    auto leave =
        waiters->MakeRoom(*asking, limits_.max_waiting, limits_.receiving, now);
    if (!leave) return {Outcome::kBusy, RetryAfterLocked(now)};
    for (auto& w : *leave) displaced_.Push(std::move(w));
  }
  asking->lease = std::move(*lease);
  waiters->Push(std::move(asking));
  NoteWaiting();
  accounts_->Change();
  return {Outcome::kWaiting};
}

bool Gate::Forget(Waiter* waiter) {
  WaitList::List forgotten;  // destroyed after the lock: their leases take it
  absl::MutexLock lock(&accounts_->mutex);
  for (WaitList* waiters : {&messages_, &heads_, &payloads_, &displaced_}) {
    forgotten = waiters->RemoveIf([&](const WaitList::Waiting& w) {
      return static_cast<const Asking&>(w).waiter == waiter;
    });
    if (forgotten.empty()) continue;
    NoteWaiting();
    // The next in line may fit where this one did not.
    accounts_->Change();
    return true;
  }
  return false;
}

void Gate::Decide(absl::Time now) {
  std::vector<std::pair<Outcome, WaitList::List>> decided;
  {
    absl::MutexLock lock(&accounts_->mutex);
    accounts_->Advance(now);
    next_ = absl::InfiniteFuture();
    const auto remove = [&](WaitList* waiters, Outcome outcome,
                            auto condition) {
      decided.emplace_back(outcome,
                           waiters->RemoveIf([&](const WaitList::Waiting& w) {
                             return condition(static_cast<const Asking&>(w));
                           }));
    };
    const auto all = [](const Asking&) { return true; };
    remove(&displaced_, Outcome::kBusy, all);
    remove(&payloads_, Outcome::kNoDevice,
           [&](const Asking& a) { return !HasDevice(a.device); });
    for (WaitList* waiters : {&messages_, &heads_, &payloads_}) {
      if (waiters->empty()) continue;
      if (stopped_) remove(waiters, Outcome::kStopped, all);
      remove(waiters, Outcome::kBusy,
             [&](const Asking& a) { return a.until <= now; });
      remove(waiters, Outcome::kTooLate, [&](const Asking& a) {
        return waiters == &messages_ &&
               WouldBeLate(a.bytes, 0, a.deadline, now);
      });
      const auto held = [&](const std::string& identity) {
        return accounts_->budget.held_by(identity);
      };
      const auto take = [&](WaitList::Waiting& w, WaitList::Lanes kept) {
        auto& asking = static_cast<Asking&>(w);
        return Take(waiters, asking, &asking.lease, kept, now);
      };
      decided.emplace_back(Outcome::kGranted, waiters->Serve(now, held, take));
      next_ = std::min(next_, waiters->NextChange(now));
    }
    NoteWaiting();
  }
  for (auto& [outcome, list] : decided) {
    for (auto& w : list) {
      auto& asking = static_cast<Asking&>(*w);
      asking.waiter->OnAdmitted(outcome, std::move(asking.lease));
    }
  }
}

bool Gate::AwaitDecision(const std::function<absl::Time()>& now) {
  absl::MutexLock lock(&accounts_->mutex);
  accounts_->told.WaitUntil(&accounts_->mutex, SteadyNow() + (next_ - now()),
                            [this]() { return accounts_->changed; });
  accounts_->changed = false;
  return !stopped_;
}

absl::Duration Gate::RetryAfterLocked(absl::Time now) const {
  return std::clamp(accounts_->workload.TimeFor(
                        messages_.BytesBefore(Priority::kLow), 0, now),
                    kSoonestRetry, kLatestRetry);
}

size_t Gate::used() const {
  absl::MutexLock lock(&accounts_->mutex);
  size_t sum = 0;
  for (size_t a = 0; a < accounts_->PlacesOf(0); ++a)
    sum += accounts_->budget.used(a);
  return sum;
}

}  // namespace quantd
