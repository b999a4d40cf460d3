// What the ledger thinks of senders and their hosts.
#include <utility>

#include "server/gate/ledger.h"
#include "server/gate/steady_time.h"

namespace quantd {
namespace {

// How long a stall is held against a sender and its host.
constexpr absl::Duration kDistrust = absl::Seconds(10);

}  // namespace

bool MemoryLedger::Distrusted(const Sender& sender, absl::Time now) const {
  if (IsTrusted(sender.host())) return false;
  if (now < sender.distrusted_until_) return true;
  if (sender.proven_) return false;
  // A connection nobody knows is as good as its host.
  const auto host = hosts_.find(sender.host());
  return host != hosts_.end() && now < host->second.distrusted_until;
}

bool MemoryLedger::Suspect(const Sender& sender, absl::Time now) const {
  return !sender.proven_ && Distrusted(sender, now);
}

const MemoryLedger::Host* MemoryLedger::OutlawedHost(const Sender& sender,
                                                     absl::Time now) const {
  const auto host = hosts_.find(sender.host());
  return host != hosts_.end() && now < host->second.outlawed_until &&
                 !IsTrusted(sender.host())
             ? &host->second
             : nullptr;
}

bool MemoryLedger::IsOutlaw(const Sender& sender, absl::Time now) const {
  return !sender.proven_ && OutlawedHost(sender, now) != nullptr;
}

void MemoryLedger::OutlawLocked(Sender& sender, absl::Time now) {
  Host& host = HoldAgainst(sender, now);
  host.outlawed_until = host.distrusted_until;
  sender.proven_ = false;
  sender.AllowBacklog(Sender::Backlog::kLeast);
}

MemoryLedger::Host& MemoryLedger::HoldAgainst(Sender& sender, absl::Time now) {
  Host& host = hosts_[sender.host()];
  sender.distrusted_until_ = host.distrusted_until = now + kDistrust;
  return host;
}

void MemoryLedger::Distrust(Sender& sender) {
  absl::MutexLock lock(&mutex_);
  sender.proven_ = false;
  HoldAgainst(sender, SteadyNow());
}

void MemoryLedger::Outlaw(Sender& sender) {
  absl::MutexLock lock(&mutex_);
  OutlawLocked(sender, SteadyNow());
}

bool MemoryLedger::Outlawed(const Sender& sender) const {
  absl::MutexLock lock(&mutex_);
  return IsOutlaw(sender, SteadyNow());
}

MemoryLedger::Standing MemoryLedger::StandingOf(const Sender& sender) const {
  if (IsTrusted(sender.host())) return Standing::kTrusted;
  absl::MutexLock lock(&mutex_);
  const absl::Time now = SteadyNow();
  return IsOutlaw(sender, now)  ? Standing::kOutlawed
         : Suspect(sender, now) ? Standing::kDistrusted
                                : Standing::kGood;
}

void MemoryLedger::Prove(Sender& sender) {
  absl::MutexLock lock(&mutex_);
  const bool first = !std::exchange(sender.proven_, true);
  if (OutlawedHost(sender, SteadyNow()) == nullptr) {
    sender.AllowBacklog(Sender::Backlog::kAny);
  } else if (first) {
    sender.AllowBacklog(Sender::Backlog::kSmall);
  }
}

}  // namespace quantd
