// Whom the ledger refuses because of the time it would take, and what it tells
// those who are refused.
#include <algorithm>

#include "absl/time/clock.h"
#include "server/ledger.h"
#include "server/steady_time.h"

namespace quantd {
namespace {

// What is smaller overtakes others, and is not judged by what is before it.
constexpr size_t kOvertakes = 256 << 10;
// When who is refused may come again.
constexpr absl::Duration kSoonest = absl::Milliseconds(50);
constexpr absl::Duration kLatest = absl::Seconds(5);

}  // namespace

bool MemoryLedger::InTime(const ReceiveAsk& ask, absl::Time now) const {
  if (ask.need <= kOvertakes || !forecast_.known() ||
      ask.deadline == absl::InfiniteFuture()) {
    return true;
  }
  // Only what is here is before it: what others declare costs them nothing, and
  // must not turn anybody away. Whoever comes to a server that has nothing to
  // do is served, even if that was slow lately: or nobody would ever find out.
  return forecast_.backlog() == 0 || now + TimeFor(ask) <= ask.deadline;
}

absl::Duration MemoryLedger::TimeFor(const ReceiveAsk& ask) const {
  return forecast_.TimeFor(forecast_.backlog() + static_cast<double>(ask.need) +
                           Forecast::kOfCall);
}

absl::Duration MemoryLedger::RetryDelay(const ReceiveAsk& ask) const {
  absl::MutexLock lock(&mutex_);
  const absl::Time now = SteadyNow();
  if (!forecast_.known()) return OldestWait(now);
  const absl::Duration patience = std::min(
      std::max(ask.deadline - now, absl::ZeroDuration()), limits_.max_wait);
  return std::clamp(TimeFor(ask) - patience, kSoonest, kLatest);
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
