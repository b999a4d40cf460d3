// What the ledger makes of messages on their way.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "server/gate/arrival.h"
#include "server/gate/ledger.h"
#include "server/gate/steady_time.h"

namespace quantd {
namespace {

// As much as gRPC takes of a message before anybody reads it: a message of this
// size costs no more while it is waited for.
constexpr size_t kFirstWindow = 96 << 10;
// What a message costs of which nothing has come.
constexpr size_t kSmallCall = 16 << 10;
// A sender should bring kStep of each message within kStall; then it is charged
// what it declared, else what has come.
constexpr size_t kStep = 64 << 10;
constexpr absl::Duration kStall = absl::Milliseconds(50);
// One who does not within kGiveUp is in the way of those who wait for kUrgent.
constexpr absl::Duration kGiveUp = absl::Milliseconds(250);
constexpr absl::Duration kUrgent = absl::Milliseconds(100);
constexpr absl::Duration kLong = absl::Seconds(1);
// What a connection may bring beside messages before those on their way are
// suspected, and the window of others that are not read.
constexpr uint64_t kFraming = 128 << 10;
// What comes beyond that may be of calls that wait to be seen, for so long.
constexpr absl::Duration kUnseen = absl::Milliseconds(500);
// What is explained by guess (headers, windows of calls that are over) and may
// still come: as much as a connection's windows hold, and so much a second.
constexpr uint64_t kGuesses = 2 << 20;
constexpr double kGuessesPerSecond = 8 << 20;
// What may wait to be guessed: as much as is believed in the time that a
// connection has to explain itself.
constexpr uint64_t kMostLeft = 16 << 20;
// Outlaws are believed a part of that.
constexpr uint64_t kOutlawsPart = 16;
// How long what comes may be of a message that was given up.
constexpr absl::Duration kExcuse = absl::Seconds(2);
// The same of a sender that has brought more than it may: it has been told.
constexpr absl::Duration kShortExcuse = absl::Milliseconds(250);
// A connection may bring so many bytes of no message between two looks at it.
constexpr uint64_t kForgiven = 1 << 10;
// What a host may bring a second after it has brought more than is lawful, by
// connections that have not proven themselves.
constexpr double kOutlawRate = 16 << 20;

}  // namespace

uint64_t MemoryLedger::Come(const Sender& sender) {
  return sender.received_ - std::min(sender.received_, sender.explained_);
}

void MemoryLedger::Measure(Sender& sender) const {
  const auto received = sender.Received();
  sender.measured_ = received.has_value();
  sender.received_ = received.value_or(0);
  // Not much can be saved up for later.
  sender.explained_ = std::min(
      sender.explained_, sender.received_ + kGuesses + 2 * limits_.window);
}

void MemoryLedger::Recount(Sender& sender, absl::Time now) {
  size_t counted = sender.declared_;
  // Who cannot be measured is taken at its word.
  if (sender.measured_) {
    size_t most = 0;
    for (const Arrival* a : sender.arrivals_) most += a->most;
    if (sender.stalled_ || Distrusted(sender, now)) {
      counted = std::min(counted, sender.arrivals_.size() * kSmallCall);
    }
    counted = std::min(std::max<size_t>(counted, Come(sender)), most);
  }
  arriving_ += counted - sender.counted_;
  sender.counted_ = counted;
}

MemoryCharge MemoryLedger::BeginArrival(const std::shared_ptr<Sender>& sender,
                                        Waiter* waiter, size_t need,
                                        size_t most, absl::Time now) {
  MemoryCharge charge;
  charge.ledger_ = shared_from_this();
  charge.sender_ = sender;
  charge.arrival_ = std::make_unique<Arrival>(Arrival{waiter, need, most});
  if (sender->arrivals_.empty()) {
    Measure(*sender);
    sender->mark_ = sender->received_;
    sender->moved_ = now;
    sender->stalled_ = false;
    senders_.insert(sender.get());
  }
  if (most > kFirstWindow && !sender->proven_) {
    sender->AllowBacklog(IsOutlaw(*sender, now) ? Sender::Backlog::kSmall
                                                : Sender::Backlog::kWindow);
  }
  sender->arrivals_.push_back(charge.arrival_.get());
  sender->declared_ += need;
  Recount(*sender, now);
  return charge;
}

void MemoryLedger::AllowUnread(uint64_t bytes, MemoryCharge* charge) {
  absl::MutexLock lock(&mutex_);
  charge->unread_ += bytes;
  charge->sender_->unread_ += bytes;
}

void MemoryLedger::ExpectNext(size_t came, size_t need, size_t most,
                              Waiter* waiter, MemoryCharge* charge) {
  absl::MutexLock lock(&mutex_);
  if (const auto before = std::move(charge->arrival_)) {
    EndArrival(*charge->sender_, *before, came);
  }
  const size_t held = std::exchange(charge->receive_, 0);
  arrived_ -= held;
  Hold(*charge->sender_, charge->caller_.get(), 0, held);
  charge->arrival_ =
      BeginArrival(charge->sender_, waiter, need, most, SteadyNow()).arrival_;
}

void MemoryLedger::EndArrival(Sender& sender, Arrival& arrival,
                              std::optional<size_t> bytes) {
  const absl::Time now = SteadyNow();
  if (bytes) {
    // Frames are a little more.
    sender.explained_ += *bytes + *bytes / 128 + 64;
  } else {
    // What came of it is not known: of all that has come, its share. What is
    // still on its way gRPC drops.
    Measure(sender);
    const uint64_t most = Lawful(sender);
    if (most != 0) {
      sender.explained_ += static_cast<uint64_t>(
          static_cast<double>(std::min(Come(sender), most)) *
          static_cast<double>(arrival.most) / static_cast<double>(most));
    }
    if (arrival.most > kFirstWindow) {
      const bool outlawed = now < sender.distrusted_until_ &&
                            OutlawedHost(sender, now) != nullptr;
      sender.excused_until_ = now + (outlawed ? kShortExcuse : kExcuse);
    }
  }
  if (arrival.work != 0) {
    forecast_.Ends(std::exchange(arrival.work, 0), false, now);
  }
  std::erase(sender.arrivals_, &arrival);
  sender.declared_ -= arrival.need;
  if (sender.arrivals_.empty()) senders_.erase(&sender);
  Recount(sender, now);
}

uint64_t MemoryLedger::ExpectedOfDistrusted(absl::Time now) {
  uint64_t bytes = 0;
  for (const Sender* s : senders_) {
    if (!Suspect(*s, now)) continue;
    // Who has brought nothing and does not move is expected to bring nothing.
    const size_t unkept = s->arrivals_.size() * kSmallCall;
    if (s->stalled_) {
      bytes += s->counted_ - std::min(s->counted_, unkept);
    } else {
      for (const Arrival* a : s->arrivals_) {
        if (a->need != 0 && a->most > kFirstWindow) bytes += a->most;
      }
    }
  }
  for (const Queue* queue : {&for_head_, &for_payload_}) {
    for (const Waiting& w : *queue) {
      const size_t held = w.charge.receive_;
      if (held > 2 * kFirstWindow && Suspect(*w.sender, now)) bytes += held;
    }
  }
  return bytes;
}

void MemoryLedger::Pay(const Waiting& w, absl::Time now) {
  if (w.most > kFirstWindow && IsOutlaw(*w.sender, now)) {
    absl::Time& paid_until = hosts_[w.sender->host()].paid_until;
    paid_until = std::max(paid_until, now) +
                 absl::Seconds(static_cast<double>(w.most) / kOutlawRate);
  }
}

bool MemoryLedger::HasRoomToReceive(const Waiting& w, absl::Time now) {
  const size_t used = arrived_ + arriving_;
  const bool distrusted = Distrusted(*w.sender, now);
  const size_t need = distrusted ? std::min(w.need, kSmallCall) : w.need;
  if (used > limits_.receive || need > limits_.receive - used) return false;
  if (w.most <= kFirstWindow) return true;
  if (distrusted && !w.sender->proven_) {
    const Host* const host = OutlawedHost(*w.sender, now);
    if (host != nullptr && now < host->paid_until) return false;
    const uint64_t expected = ExpectedOfDistrusted(now);
    return expected == 0 || expected + w.most <= limits_.receive / 2;
  }
  if (w.need <= kFirstWindow) return true;
  // One message always fits, however large it may legally be.
  return arriving_ + need <= limits_.arriving ||
         arriving_ <= senders_.size() * kFirstWindow;
}

void MemoryLedger::Sweep(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  for (Sender* sender : senders_) {
    Measure(*sender);
    const auto awaited =
        std::count_if(sender->arrivals_.begin(), sender->arrivals_.end(),
                      [](const Arrival* a) { return a->need != 0; });
    const uint64_t step = kStep * static_cast<uint64_t>(awaited);
    if (!sender->measured_ ||
        sender->received_ - std::min(sender->received_, sender->mark_) >=
            step ||
        sender->HasUnread()) {
      sender->mark_ = sender->received_;
      sender->moved_ = now;
      sender->stalled_ = false;
    } else if (now - sender->moved_ > kStall) {
      if (!sender->stalled_) Disbelieve(*sender, now);
      sender->stalled_ = true;
      // The machine of one that is known may be as busy as this one.
      if (!sender->proven_ || now - sender->moved_ > kGiveUp) {
        HoldAgainst(*sender, now);
      }
    }
    Recount(*sender, now);
    RevokeTooLong(*sender, now);
  }
  absl::erase_if(hosts_, [&](const auto& entry) {
    const Host& host = entry.second;
    return host.held == 0 && host.distrusted_until < now &&
           host.unkept_until < now;
  });
  if (arrived_ + arriving_ > limits_.receive) {
    RevokeExcess(now);
  } else if (!to_receive_.empty() &&
             now - to_receive_.front().since > kUrgent) {
    RevokeStalled(now);
  }
  TurnAwayDistrusted(now);
  // What stalls is charged less: others may fit now.
  WakeWaiting();
}

void MemoryLedger::TurnAwayDistrusted(absl::Time now) {
  const bool urgent = std::any_of(
      to_receive_.begin(), to_receive_.end(),
      [&](const Waiting& w) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return now - w.since > kUrgent && !Distrusted(*w.sender, now);
      });
  if (!urgent) return;
  // Their messages wait for payload where others have no room for theirs.
  for (Queue* queue : {&for_head_, &for_payload_}) {
    for (Waiting& w : *queue) {
      if (Distrusted(*w.sender, now)) w.until = now;
    }
  }
}

void MemoryLedger::RevokeAll(Sender& sender, Revocation why) {
  for (Arrival* arrival : sender.arrivals_) {
    if (!std::exchange(arrival->revoked, true)) arrival->waiter->Revoke(why);
  }
}

uint64_t MemoryLedger::Lawful(const Sender& sender) {
  uint64_t lawful = sender.unread_;
  for (const Arrival* a : sender.arrivals_) lawful += a->most + a->most / 128;
  return lawful;
}

void MemoryLedger::RevokeTooLong(Sender& sender, absl::Time now) {
  if (!sender.measured_ || SteadyNow() < sender.excused_until_ ||
      Come(sender) <=
          Lawful(sender) + sender.left_ + limits_.window + kFraming) {
    sender.excess_since_ = absl::InfiniteFuture();
    return;
  }
  sender.excess_since_ = std::min(sender.excess_since_, now);
  if (now - sender.excess_since_ < kUnseen) return;
  OutlawLocked(sender, SteadyNow());
  RevokeAll(sender, Revocation::kTooLong);
}

uint64_t MemoryLedger::Guess(Sender& sender, uint64_t bytes,
                             absl::Time now) const {
  const uint64_t part = IsOutlaw(sender, now) ? kOutlawsPart : 1;
  const uint64_t most = (kGuesses + 2 * limits_.window) / part;
  if (sender.guessed_ == absl::InfinitePast()) {
    sender.guesses_ = most;
  } else {
    const double earned = absl::ToDoubleSeconds(now - sender.guessed_) *
                          kGuessesPerSecond / static_cast<double>(part);
    sender.guesses_ = std::min<uint64_t>(
        most, sender.guesses_ + static_cast<uint64_t>(std::clamp(
                                    earned, 0.0, static_cast<double>(most))));
  }
  sender.guessed_ = now;
  const uint64_t believed = std::min(bytes, sender.guesses_);
  sender.guesses_ -= believed;
  sender.explained_ += believed;
  return believed;
}

void MemoryLedger::Explain(Sender& sender, uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  Guess(sender, bytes, SteadyNow());
}

void MemoryLedger::EndUnread(Sender& sender, bool left) {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = SteadyNow();
  if (IsOutlaw(sender, now)) {
    Guess(sender, limits_.window, now);
  } else if (left) {
    sender.left_ = std::min(sender.left_ + limits_.window, kMostLeft);
  } else {
    // As many as there were calls: each had a window, however soon it ended.
    sender.explained_ += limits_.window;
  }
}

void MemoryLedger::Excuse(Sender& sender) {
  absl::MutexLock lock(&mutex_);
  sender.excused_until_ = SteadyNow() + kExcuse;
}

uint64_t MemoryLedger::Unexplained(Sender& sender) {
  absl::MutexLock lock(&mutex_);
  Measure(sender);
  if (!sender.measured_) return 0;
  const absl::Time now = SteadyNow();
  // What little comes beside messages in the course of days is forgiven.
  Guess(sender, kForgiven, now);
  const auto beyond = [&] {
    return Come(sender) - std::min(Come(sender), Lawful(sender));
  };
  sender.left_ -= Guess(sender, std::min(sender.left_, beyond()), now);
  const uint64_t unexplained = beyond();
  if (now >= sender.excused_until_) return unexplained;
  sender.explained_ += unexplained;
  return 0;
}

void MemoryLedger::RevokeExcess(absl::Time now) {
  // First who does not move, the largest first; then whom there is reason to
  // distrust, then all others: those go on that have come farthest.
  struct Candidate {
    Sender* sender;
    int rank;
  };
  std::vector<Candidate> candidates;
  size_t excess = arrived_ + arriving_ - limits_.receive;
  for (Sender* s : senders_) {
    const bool leaves =
        std::all_of(s->arrivals_.begin(), s->arrivals_.end(),
                    [](const Arrival* a) { return a->revoked; });
    if (leaves) {
      excess -= std::min(excess, s->counted_);
    } else {
      candidates.push_back({s, now - s->moved_ > kGiveUp ? 0
                               : Distrusted(*s, now)     ? 1
                                                         : 2});
    }
  }
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) {
              if (a.rank != b.rank) return a.rank < b.rank;
              return a.rank == 0 ? a.sender->counted_ > b.sender->counted_
                                 : a.sender->counted_ < b.sender->counted_;
            });
  for (const Candidate& c : candidates) {
    if (excess == 0) break;
    RevokeAll(*c.sender, Revocation::kOthersWait);
    excess -= std::min(excess, c.sender->counted_);
  }
}

void MemoryLedger::RevokeStalled(absl::Time now) {
  Sender* worst = nullptr;
  // Small ones, too, if the first in line has waited long: it may need all.
  const bool small = now - to_receive_.front().since > kLong;
  for (Sender* s : senders_) {
    if (now - s->moved_ <= kGiveUp) continue;
    if (s->counted_ <= kSmallCall && !small) continue;
    if (worst == nullptr || s->counted_ > worst->counted_) worst = s;
  }
  if (worst == nullptr) return;
  worst->proven_ = false;
  RevokeAll(*worst, Revocation::kOthersWait);
}

}  // namespace quantd
