#include "server/gate/lease.h"

#include <algorithm>

#include "server/gate/gate.h"

namespace quantd {

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  gate_ = std::move(other.gate_);
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
  if (gate_ == nullptr || bytes <= receiving_) return true;
  absl::MutexLock lock(&gate_->mutex_);
  if (!gate_->budget_.Fits(Gate::kReceiving, bytes - receiving_)) return false;
  gate_->Change(Gate::kReceiving, identity_, &receiving_, bytes);
  return true;
}

void Lease::Arrived(size_t bytes, size_t work, absl::Time now) {
  if (gate_ == nullptr) return;
  absl::MutexLock lock(&gate_->mutex_);
  gate_->now_ = std::max(gate_->now_, now);
  if (coming_) gate_->workload_.ComesNoMore(*coming_);
  coming_.reset();
  if (!work_) {
    work_ = work;
    gate_->workload_.Begins(work, now);
  }
  gate_->Change(Gate::kReceiving, identity_, &receiving_, bytes);
}

void Lease::HoldReceiving(size_t bytes) {
  if (gate_ == nullptr || bytes == receiving_) return;
  absl::MutexLock lock(&gate_->mutex_);
  gate_->Change(Gate::kReceiving, identity_, &receiving_, bytes);
}

void Lease::ShrinkHead(size_t bytes) {
  if (head_ <= bytes) return;
  absl::MutexLock lock(&gate_->mutex_);
  gate_->Change(Gate::kHeads, identity_, &head_, bytes);
}

void Lease::ShrinkPayload(size_t bytes) {
  const bool leaves = bytes == 0 && has_place_;
  if (payload_ <= bytes && !leaves) return;
  absl::MutexLock lock(&gate_->mutex_);
  if (leaves) {
    size_t place = std::exchange(has_place_, false) ? 1 : 0;
    gate_->Change(gate_->PlacesOf(device_), "", &place, 0);
  }
  gate_->Change(gate_->PayloadOf(device_), identity_, &payload_,
                std::min(payload_, bytes));
}

bool Lease::IsTooLate(absl::Time deadline, absl::Time now) const {
  if (!work_ || deadline == absl::InfiniteFuture()) return false;
  absl::MutexLock lock(&gate_->mutex_);
  return gate_->workload_.count() > 1 &&
         gate_->workload_.TimeForAlone(*work_) > deadline - now;
}

void Lease::Served(absl::Time now) {
  if (!work_) return;
  absl::MutexLock lock(&gate_->mutex_);
  gate_->now_ = std::max(gate_->now_, now);
  gate_->workload_.Ends(*std::exchange(work_, std::nullopt), true, now);
}

void Lease::Reset() {
  if (gate_ == nullptr) return;
  {
    absl::MutexLock lock(&gate_->mutex_);
    if (coming_) gate_->workload_.ComesNoMore(*coming_);
    // Given up at the last time that was told.
    if (work_) gate_->workload_.Ends(*work_, false, gate_->now_);
    coming_.reset();
    work_.reset();
    gate_->Change(Gate::kReceiving, identity_, &receiving_, 0);
    gate_->Change(Gate::kHeads, identity_, &head_, 0);
    if (payload_ != 0 || has_place_) {
      size_t place = std::exchange(has_place_, false) ? 1 : 0;
      gate_->Change(gate_->PlacesOf(device_), "", &place, 0);
      gate_->Change(gate_->PayloadOf(device_), identity_, &payload_, 0);
    }
  }
  gate_.reset();
}

}  // namespace quantd
