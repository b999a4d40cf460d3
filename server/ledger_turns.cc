// Whom the ledger refuses because of the time it would take, and what it tells
// those who are refused.
#include <algorithm>

#include "absl/time/clock.h"
#include "server/ledger.h"

namespace quantd {
namespace {

// What is smaller overtakes others, and is not judged by what is before it.
constexpr size_t kOvertakes = 256 << 10;
// Work may take so many times what it took lately: a caller who is served late
// has cost what another lacks.
constexpr double kMargin = 1.5;
// A message on its way is work that is ahead of others for as long as it would
// take to come at several times the rate at which work is done. After that its
// sender is what is slow.
constexpr absl::Duration kSlowSender = absl::Milliseconds(100);
constexpr double kSlowTimes = 4;

}  // namespace

double MemoryLedger::WorkBefore(const ReceiveAsk& ask, absl::Time now) const {
  double work = forecast_.backlog();
  for (const Sender* sender : senders_) {
    for (const Arrival* a : sender->arrivals_) {
      const auto need = static_cast<double>(a->need);
      if (now - a->since <=
          kSlowSender + kSlowTimes * forecast_.TimeFor(need)) {
        work += need;
      }
    }
  }
  for (const Waiting& w : to_receive_) {
    if (w.priority <= ask.priority) work += static_cast<double>(w.need);
  }
  return work;
}

bool MemoryLedger::InTime(const ReceiveAsk& ask, absl::Time now) {
  const bool returns =
      forecast_.Redeem(ShareOf(*ask.sender, ask.caller.get()), now);
  if (ask.need <= kOvertakes || !forecast_.known() ||
      ask.deadline == absl::InfiniteFuture()) {
    return true;
  }
  double work = WorkBefore(ask, now);
  // Whoever comes to a server that has nothing to do is served, even if that
  // was slow lately: or nobody would ever find out.
  if (work == 0) return true;
  if (!returns) work += forecast_.Expected(now, ask.deadline);
  work += static_cast<double>(ask.need) + Forecast::kOfCall;
  return now + kMargin * forecast_.TimeFor(work) <= ask.deadline;
}

absl::Duration MemoryLedger::RetryDelay(const ReceiveAsk& ask) {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = absl::Now();
  if (!forecast_.known()) return OldestWait(now);
  const double own = static_cast<double>(ask.need) + Forecast::kOfCall;
  const absl::Duration all = forecast_.TimeFor(WorkBefore(ask, now) + own);
  const absl::Duration patience = std::min(
      std::max(ask.deadline - now, absl::ZeroDuration()), limits_.max_wait);
  return forecast_.Promise(ShareOf(*ask.sender, ask.caller.get()), own,
                           std::max(all - patience, absl::ZeroDuration()), now);
}

absl::Duration MemoryLedger::RetryDelay() const {
  absl::MutexLock lock(&mutex_);
  return OldestWait(absl::Now());
}

absl::Duration MemoryLedger::OldestWait(absl::Time now) const {
  absl::Duration age = absl::ZeroDuration();
  for (const Queue* queue : {&to_receive_, &for_head_, &for_payload_}) {
    if (!queue->empty()) age = std::max(age, now - queue->front().since);
  }
  return std::clamp(age, absl::Milliseconds(50), absl::Seconds(5));
}

}  // namespace quantd
