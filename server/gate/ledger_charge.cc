// What one call holds of the ledger's accounts.
#include <utility>

#include "absl/time/clock.h"
#include "server/gate/arrival.h"
#include "server/gate/ledger.h"
#include "server/gate/steady_time.h"

namespace quantd {

MemoryCharge::MemoryCharge() = default;
MemoryCharge::MemoryCharge(MemoryCharge&& other) noexcept {
  *this = std::move(other);
}
MemoryCharge::~MemoryCharge() { Reset(); }

MemoryCharge& MemoryCharge::operator=(MemoryCharge&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  ledger_ = std::move(other.ledger_);
  sender_ = std::move(other.sender_);
  caller_ = std::move(other.caller_);
  priority_ = other.priority_;
  arrival_ = std::move(other.arrival_);
  receive_ = std::exchange(other.receive_, 0);
  head_ = std::exchange(other.head_, 0);
  payload_ = std::exchange(other.payload_, 0);
  unread_ = std::exchange(other.unread_, 0);
  work_ = std::exchange(other.work_, 0);
  due_ = std::exchange(other.due_, absl::InfiniteFuture());
  was_slow_ = std::exchange(other.was_slow_, false);
  device_ = other.device_;
  return *this;
}

void MemoryCharge::Arrived(size_t bytes, size_t receive) noexcept {
  if (arrival_ == nullptr) return;
  absl::MutexLock lock(&ledger_->mutex_);
  ledger_->EndArrival(*sender_, *arrival_, bytes);
  arrival_.reset();
  receive_ = receive;
  ledger_->arrived_ += receive;
  ledger_->Hold(*sender_, caller_.get(), receive, 0);
  ledger_->WakeWaiting();
}

void MemoryCharge::GrowReceive(size_t receive) noexcept {
  if (ledger_ == nullptr || receive <= receive_) return;
  absl::MutexLock lock(&ledger_->mutex_);
  const size_t more = receive - std::exchange(receive_, receive);
  ledger_->arrived_ += more;
  ledger_->Hold(*sender_, caller_.get(), more, 0);
}

void MemoryCharge::ShrinkReceive(size_t receive) noexcept {
  if (receive_ <= receive) return;
  absl::MutexLock lock(&ledger_->mutex_);
  const size_t less = std::exchange(receive_, receive) - receive;
  ledger_->arrived_ -= less;
  ledger_->Hold(*sender_, caller_.get(), 0, less);
  ledger_->WakeWaiting();
}

void MemoryCharge::ShrinkHead(size_t head) noexcept {
  if (head_ <= head) return;
  absl::MutexLock lock(&ledger_->mutex_);
  const size_t less = std::exchange(head_, head) - head;
  ledger_->heads_ -= less;
  ledger_->Hold(*sender_, caller_.get(), 0, less);
  ledger_->WakeWaiting();
}

void MemoryCharge::ShrinkPayload(size_t payload) noexcept {
  if (payload_ <= payload) return;
  absl::MutexLock lock(&ledger_->mutex_);
  const size_t less = std::exchange(payload_, payload) - payload;
  ledger_->payload_[device_] -= less;
  ledger_->Hold(*sender_, caller_.get(), 0, less);
  ledger_->WakeWaiting();
}

void MemoryCharge::Begins(size_t bytes) noexcept {
  if (ledger_ == nullptr || work_ != 0) return;
  absl::MutexLock lock(&ledger_->mutex_);
  work_ = static_cast<double>(bytes) + Forecast::kOfCall;
  const absl::Time now = SteadyNow();
  ledger_->forecast_.Begins(work_, now);
  // Who was so slow to come that he must be late says nothing of others.
  was_slow_ = now + ledger_->forecast_.TimeFor(work_) > due_;
}

bool MemoryCharge::IsTooLate() noexcept {
  if (work_ == 0 || due_ == absl::InfiniteFuture()) return false;
  absl::MutexLock lock(&ledger_->mutex_);
  if (SteadyNow() + ledger_->forecast_.TimeFor(work_) <= due_) return false;
  due_ = absl::InfiniteFuture();
  if (!was_slow_) ledger_->forecast_.Learn(true);
  return true;
}

void MemoryCharge::Served() noexcept { EndWork(true); }

void MemoryCharge::EndWork(bool served) noexcept {
  if (work_ == 0) return;
  absl::MutexLock lock(&ledger_->mutex_);
  const absl::Time now = SteadyNow();
  ledger_->forecast_.Ends(std::exchange(work_, 0), served, now);
  // Who gave up before says nothing.
  const absl::Time due = std::exchange(due_, absl::InfiniteFuture());
  const bool late = now > due;
  if (!was_slow_ && (late || (served && due != absl::InfiniteFuture()))) {
    ledger_->forecast_.Learn(late);
  }
}

void MemoryCharge::Reset() noexcept {
  if (ledger_ == nullptr) return;
  EndWork(false);
  if (arrival_ != nullptr) {
    absl::MutexLock lock(&ledger_->mutex_);
    ledger_->EndArrival(*sender_, *arrival_, std::nullopt);
    ledger_->WakeWaiting();
  }
  arrival_.reset();
  if (unread_ != 0) {
    absl::MutexLock lock(&ledger_->mutex_);
    sender_->unread_ -= std::exchange(unread_, 0);
  }
  ShrinkReceive(0);
  ShrinkHead(0);
  ShrinkPayload(0);
  sender_.reset();
  caller_.reset();
  ledger_.reset();
}

}  // namespace quantd
