#include "server/ledger.h"

#include <algorithm>
#include <utility>

namespace quantd {

MemoryCharge& MemoryCharge::operator=(MemoryCharge&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  ledger_ = std::move(other.ledger_);
  held_ = std::exchange(other.held_, {});
  device_ = other.device_;
  return *this;
}

void MemoryCharge::ShrinkReceive(size_t receive) noexcept {
  if (held_.receive <= receive) return;
  ledger_->Return(device_, {held_.receive - receive, 0});
  held_.receive = receive;
}

void MemoryCharge::ShrinkPayload(size_t payload) noexcept {
  if (held_.payload <= payload) return;
  ledger_->Return(device_, {0, held_.payload - payload});
  held_.payload = payload;
}

void MemoryCharge::Reset() noexcept {
  if (ledger_ != nullptr) ledger_->Return(device_, held_);
  held_ = {};
  ledger_.reset();
}

void MemoryCharge::Merge(MemoryCharge other) {
  held_.receive += other.held_.receive;
  held_.payload += other.held_.payload;
  other.held_ = {};
}

std::shared_ptr<MemoryLedger> MemoryLedger::Create(Limits limits) {
  return std::shared_ptr<MemoryLedger>(new MemoryLedger(std::move(limits)));
}

MemoryLedger::MemoryLedger(Limits limits)
    : limits_(std::move(limits)), payload_(limits_.payload.size(), 0) {
  thread_ = std::thread([this] { RunThread(); });
}

MemoryLedger::~MemoryLedger() { Stop(); }

bool MemoryLedger::CouldFit(const MemoryNeed& need) const {
  return need.receive <= limits_.receive &&
         std::any_of(limits_.payload.begin(), limits_.payload.end(),
                     [&](size_t limit) { return need.payload <= limit; });
}

int MemoryLedger::FindRoom(const Ask& ask) {
  if (ask.need.receive > limits_.receive - receive_) return -1;
  const auto has_room = [&](size_t i) {
    return ask.need.payload <= limits_.payload[i] - payload_[i];
  };
  if (ask.device >= 0) return has_room(ask.device) ? ask.device : -1;
  const size_t n = payload_.size();
  int best = -1;
  for (size_t k = 0; k < n; ++k) {
    const size_t i = (next_device_ + k) % n;
    if (has_room(i) && (best < 0 || payload_[i] < payload_[best])) {
      best = static_cast<int>(i);
    }
  }
  if (best >= 0) next_device_ = (best + 1) % n;
  return best;
}

MemoryCharge MemoryLedger::Take(int device, const MemoryNeed& need) {
  receive_ += need.receive;
  payload_[device] += need.payload;
  MemoryCharge charge;
  charge.ledger_ = shared_from_this();
  charge.held_ = need;
  charge.device_ = device;
  return charge;
}

MemoryLedger::Outcome MemoryLedger::Admit(const Ask& ask, Waiter* waiter,
                                          MemoryCharge* charge) {
  absl::MutexLock lock(&mutex_);
  if (stopped_) return Outcome::kStopped;
  const bool grower_waits = !waiting_.empty() && waiting_.front().ask.grow;
  if (waiting_.empty() || (ask.grow && !grower_waits)) {
    if (const int device = FindRoom(ask); device >= 0) {
      *charge = Take(device, ask.need);
      return Outcome::kGranted;
    }
  }
  // Two growers could wait for each other's memory; one cannot wait for ever.
  if (ask.grow ? grower_waits : waiting_.size() >= limits_.max_waiting) {
    return Outcome::kFull;
  }
  const absl::Time now = absl::Now();
  const Waiting entry{ask, waiter, now,
                      std::min(ask.deadline, now + limits_.max_wait)};
  waiting_.insert(ask.grow ? waiting_.begin() : waiting_.end(), entry);
  changed_.Signal();
  return Outcome::kWaiting;
}

bool MemoryLedger::Forget(Waiter* waiter) {
  absl::MutexLock lock(&mutex_);
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    if (it->waiter != waiter) continue;
    waiting_.erase(it);
    // The next in line may fit where this one did not.
    changed_.Signal();
    return true;
  }
  return false;
}

void MemoryLedger::Return(int device, const MemoryNeed& need) noexcept {
  absl::MutexLock lock(&mutex_);
  receive_ -= need.receive;
  payload_[device] -= need.payload;
  if (!waiting_.empty()) changed_.Signal();
}

void MemoryLedger::RunThread() {
  struct Decided {
    Waiter* waiter;
    Outcome outcome;
    MemoryCharge charge;
  };
  std::vector<Decided> decided;
  mutex_.Lock();
  while (true) {
    const absl::Time now = absl::Now();
    absl::Time wake = absl::InfiniteFuture();
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      if (stopped_ || it->until <= now) {
        decided.push_back({it->waiter,
                           stopped_ ? Outcome::kStopped : Outcome::kTimedOut,
                           MemoryCharge()});
        it = waiting_.erase(it);
      } else {
        wake = std::min(wake, it->until);
        ++it;
      }
    }
    while (!waiting_.empty()) {
      const int device = FindRoom(waiting_.front().ask);
      if (device < 0) break;
      decided.push_back({waiting_.front().waiter, Outcome::kGranted,
                         Take(device, waiting_.front().ask.need)});
      waiting_.pop_front();
    }
    if (decided.empty()) {
      if (stopped_) break;
      changed_.WaitWithDeadline(&mutex_, wake);
      continue;
    }
    mutex_.Unlock();
    for (Decided& d : decided) {
      d.waiter->OnMemory(d.outcome, std::move(d.charge));
    }
    decided.clear();
    mutex_.Lock();
  }
  mutex_.Unlock();
}

void MemoryLedger::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    changed_.Signal();
  }
  if (thread_.joinable()) thread_.join();
}

absl::Duration MemoryLedger::RetryDelay() const {
  absl::MutexLock lock(&mutex_);
  const absl::Duration age = waiting_.empty()
                                 ? absl::ZeroDuration()
                                 : absl::Now() - waiting_.front().since;
  return std::clamp(age, absl::Milliseconds(50), absl::Seconds(5));
}

size_t MemoryLedger::receive_used() const {
  absl::MutexLock lock(&mutex_);
  return receive_;
}

size_t MemoryLedger::payload_used(int device) const {
  absl::MutexLock lock(&mutex_);
  return payload_[device];
}

size_t MemoryLedger::used() const {
  absl::MutexLock lock(&mutex_);
  size_t sum = receive_;
  for (const size_t n : payload_) sum += n;
  return sum;
}

size_t MemoryLedger::waiting() const {
  absl::MutexLock lock(&mutex_);
  return waiting_.size();
}

}  // namespace quantd
