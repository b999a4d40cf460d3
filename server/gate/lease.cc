#include "server/gate/lease.h"

#include <algorithm>
#include <utility>

namespace quantd {

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  accounts_ = std::move(other.accounts_);
  identity_ = std::move(other.identity_);
  priority_ = other.priority_;
  device_ = other.device_;
  receiving_ = std::exchange(other.receiving_, 0);
  head_ = std::exchange(other.head_, 0);
  payload_ = std::exchange(other.payload_, 0);
  has_place_ = std::exchange(other.has_place_, false);
  coming_ = std::exchange(other.coming_, std::nullopt);
  work_ = std::exchange(other.work_, std::nullopt);
  return *this;
}

bool Lease::GrowReceiving(size_t bytes) {
  if (accounts_ == nullptr || bytes <= receiving_) return true;
  absl::MutexLock lock(&accounts_->mutex);
  if (!accounts_->budget.Fits(Accounts::kReceiving, bytes - receiving_))
    return false;
  accounts_->Set(Accounts::kReceiving, identity_, &receiving_, bytes);
  return true;
}

void Lease::Arrived(size_t bytes, size_t work, absl::Time now) {
  if (accounts_ == nullptr) return;
  absl::MutexLock lock(&accounts_->mutex);
  accounts_->now = std::max(accounts_->now, now);
  if (coming_) accounts_->workload.ComesNoMore(*coming_);
  coming_.reset();
  if (!work_) {
    work_ = work;
    accounts_->workload.Begins(work, now);
  }
  accounts_->Set(Accounts::kReceiving, identity_, &receiving_, bytes);
}

void Lease::HoldReceiving(size_t bytes) {
  if (accounts_ == nullptr || bytes == receiving_) return;
  absl::MutexLock lock(&accounts_->mutex);
  accounts_->Set(Accounts::kReceiving, identity_, &receiving_, bytes);
}

void Lease::ShrinkHead(size_t bytes) {
  if (head_ <= bytes) return;
  absl::MutexLock lock(&accounts_->mutex);
  accounts_->Set(Accounts::kHeads, identity_, &head_, bytes);
}

void Lease::ShrinkPayload(size_t bytes) {
  const bool leaves = bytes == 0 && has_place_;
  if (payload_ <= bytes && !leaves) return;
  absl::MutexLock lock(&accounts_->mutex);
  if (leaves) LeavePlace();
  accounts_->Set(accounts_->PayloadOf(device_), identity_, &payload_,
                 std::min(payload_, bytes));
}

void Lease::LeavePlace() {
  size_t place = 1;
  accounts_->Set(accounts_->PlacesOf(device_), "", &place, 0);
  has_place_ = false;
}

bool Lease::IsTooLate(absl::Time deadline, absl::Time now) const {
  if (!work_ || deadline == absl::InfiniteFuture()) return false;
  absl::MutexLock lock(&accounts_->mutex);
  return accounts_->workload.count() > 1 &&
         accounts_->workload.TimeForAlone(*work_) > deadline - now;
}

void Lease::Served(absl::Time now) {
  if (!work_) return;
  absl::MutexLock lock(&accounts_->mutex);
  accounts_->now = std::max(accounts_->now, now);
  accounts_->workload.Ends(*std::exchange(work_, std::nullopt), true, now);
}

void Lease::Reset() {
  if (accounts_ == nullptr) return;
  {
    absl::MutexLock lock(&accounts_->mutex);
    if (coming_) accounts_->workload.ComesNoMore(*coming_);
    // Given up at the last time that was told.
    if (work_) accounts_->workload.Ends(*work_, false, accounts_->now);
    coming_.reset();
    work_.reset();
    accounts_->Set(Accounts::kReceiving, identity_, &receiving_, 0);
    accounts_->Set(Accounts::kHeads, identity_, &head_, 0);
    accounts_->Set(accounts_->PayloadOf(device_), identity_, &payload_, 0);
    if (has_place_) LeavePlace();
  }
  accounts_.reset();
}

}  // namespace quantd
