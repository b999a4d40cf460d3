// Whom the ledger refuses because of the time it would take, and what it tells
// those who are refused.
#include <algorithm>
#include <utility>

#include "server/gate/arrival.h"
#include "server/gate/ledger.h"
#include "server/gate/steady_time.h"

namespace quantd {
namespace {

// What is smaller overtakes others, and is not judged by what is before it.
constexpr size_t kOvertakes = 256 << 10;
// When who is refused may come again.
constexpr absl::Duration kSoonest = absl::Milliseconds(50);
constexpr absl::Duration kLatest = absl::Seconds(5);
// Of the time that who comes at his time may take, what others may: theirs may
// be another's.
constexpr double kPartOfOthers = 0.8;
// Of the time that a call may take, from what foreseen part on it tells whether
// that is right: who has much more time is in time anyway.
constexpr double kTells = 0.5;
// A host's messages that were declared and did not come count so long each.
// Nothing is foreseen of who has more than this.
constexpr absl::Duration kUnkept = absl::Seconds(1);
constexpr absl::Duration kMostUnkept = absl::Seconds(8);

}  // namespace

std::optional<absl::Time> MemoryLedger::InTime(const ReceiveAsk& ask,
                                               absl::Time now) {
  const std::string& share = ShareOf(*ask.sender, ask.caller.get());
  const bool expected = ask.ticket != 0
                            ? appointments_.Keep(share, ask.ticket, now)
                            : ask.again && appointments_.KeepAny(share, now);
  if (ask.need <= kOvertakes || !forecast_.known() ||
      ask.deadline == absl::InfiniteFuture()) {
    return absl::InfiniteFuture();
  }
  const double work = static_cast<double>(ask.need) + Forecast::kOfCall;
  double before = forecast_.Left(now);
  double part = forecast_.part();
  if (!expected) {
    part *= kPartOfOthers;
    before += appointments_.Expected(forecast_.TimeFor(work) / 2, now);
  }
  // Whoever comes to a server that has nothing to do is served, even if that
  // was slow lately: or nobody would ever find out.
  if (before == 0) return absl::InfiniteFuture();
  const absl::Duration time = ask.deadline - now;
  const absl::Duration foreseen = forecast_.TimeFor(before + work);
  if (foreseen > part * time) return std::nullopt;
  return foreseen < kTells * part * time ? absl::InfiniteFuture()
                                         : now + Forecast::kPunctual * time;
}

void MemoryLedger::Foresee(Sender& sender, Arrival& arrival, absl::Time now) {
  if (!sender.proven_ || now < sender.unkept_until_ ||
      Distrusted(sender, now)) {
    return;
  }
  const auto host = hosts_.find(sender.host());
  if (host != hosts_.end() && host->second.unkept_until - now > kMostUnkept) {
    return;
  }
  arrival.work = static_cast<double>(arrival.need) + Forecast::kOfCall;
  forecast_.Begins(arrival.work, now);
}

void MemoryLedger::Disbelieve(Sender& sender, absl::Time now) {
  bool unkept = false;
  for (Arrival* a : sender.arrivals_) {
    if (a->work == 0) continue;
    forecast_.Ends(std::exchange(a->work, 0), false, now);
    unkept = true;
  }
  if (!unkept) return;
  sender.unkept_until_ = now + kMostUnkept;
  if (IsTrusted(sender.host())) return;
  absl::Time& until = hosts_[sender.host()].unkept_until;
  until = std::min(std::max(until, now) + kUnkept, now + 2 * kMostUnkept);
}

MemoryLedger::Turn MemoryLedger::NextTurn(const ReceiveAsk& ask) {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = SteadyNow();
  if (!forecast_.known()) return {OldestWait(now)};
  const double work = static_cast<double>(ask.need) + Forecast::kOfCall;
  const absl::Time earliest =
      now + std::max(forecast_.TimeFor(forecast_.Left(now)), kSoonest);
  const auto given = appointments_.Give(ShareOf(*ask.sender, ask.caller.get()),
                                        work, forecast_.rate(), earliest, now);
  return {given.time - now, given.ticket};
}

absl::Duration MemoryLedger::RetryDelay() const {
  absl::MutexLock lock(&mutex_);
  return OldestWait(SteadyNow());
}

absl::Duration MemoryLedger::OldestWait(absl::Time now) const {
  absl::Duration age = absl::ZeroDuration();
  for (const Queue* queue : {&to_receive_, &for_head_, &for_payload_}) {
    if (!queue->empty()) age = std::max(age, now - queue->front().since);
  }
  return std::clamp(age, kSoonest, kLatest);
}

}  // namespace quantd
