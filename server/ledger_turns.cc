// Whom the ledger refuses because of the time it would take, and what it tells
// those who are refused.
#include <algorithm>

#include "absl/time/clock.h"
#include "server/ledger.h"

namespace quantd {
namespace {

// What is smaller overtakes others, and is not judged by what is before it.
constexpr size_t kOvertakes = 256 << 10;
// When who is refused may come again.
constexpr absl::Duration kSoonest = absl::Milliseconds(50);
constexpr absl::Duration kLatest = absl::Seconds(5);
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

bool MemoryLedger::InTime(const ReceiveAsk& ask, absl::Time now) const {
  if (ask.need <= kOvertakes || !forecast_.known() ||
      ask.deadline == absl::InfiniteFuture()) {
    return true;
  }
  const double before = WorkBefore(ask, now);
  // Whoever comes to a server that has nothing to do is served, even if that
  // was slow lately: or nobody would ever find out.
  return before == 0 || now + TimeFor(ask, before) <= ask.deadline;
}

absl::Duration MemoryLedger::TimeFor(const ReceiveAsk& ask,
                                     double before) const {
  return forecast_.TimeFor(before + static_cast<double>(ask.need) +
                           Forecast::kOfCall);
}

absl::Duration MemoryLedger::RetryDelay(const ReceiveAsk& ask) const {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = absl::Now();
  if (!forecast_.known()) return OldestWait(now);
  const absl::Duration patience = std::min(
      std::max(ask.deadline - now, absl::ZeroDuration()), limits_.max_wait);
  return std::clamp(TimeFor(ask, WorkBefore(ask, now)) - patience, kSoonest,
                    kLatest);
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
  return std::clamp(age, kSoonest, kLatest);
}

}  // namespace quantd
