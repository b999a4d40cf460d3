// What one call holds of the gate's accounts.
#ifndef QUANTD_SERVER_GATE_LEASE_H_
#define QUANTD_SERVER_GATE_LEASE_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "server/gate/accounts.h"
#include "server/gate/caller.h"

namespace quantd {

// Gives all back when destroyed. Move-only, not thread-safe. May be destroyed
// in a gRPC callback: a short lock, no wait.
class Lease {
 public:
  Lease() = default;
  Lease(Lease&& other) noexcept { *this = std::move(other); }
  Lease& operator=(Lease&& other) noexcept {
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
  ~Lease() { Reset(); }

  // The device of its payload.
  int device() const { return device_; }
  size_t receiving() const { return receiving_; }
  size_t head() const { return head_; }
  size_t payload() const { return payload_; }

  // Holds `bytes` in all for a message that is longer than was counted on and
  // still comes. False: the account has no room, and the lease stays as it is.
  bool GrowReceiving(size_t bytes) {
    if (accounts_ == nullptr || bytes <= receiving_) return true;
    absl::MutexLock lock(&accounts_->mutex);
    if (!accounts_->budget.Fits(Accounts::kReceiving, bytes - receiving_))
      return false;
    accounts_->Set(Accounts::kReceiving, identity_, &receiving_, bytes);
    return true;
  }
  // The message is here and needs `bytes` from now on; it is work of `work`
  // bytes until Served or Reset.
  void Arrived(size_t bytes, size_t work, absl::Time now) {
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
  // Holds `bytes`, more or fewer than before. Never waits nor refuses: for
  // replies, and for what is small.
  void HoldReceiving(size_t bytes) {
    if (accounts_ == nullptr || bytes == receiving_) return;
    absl::MutexLock lock(&accounts_->mutex);
    accounts_->Set(Accounts::kReceiving, identity_, &receiving_, bytes);
  }
  // Hold at most `bytes` from now on.
  void ShrinkHead(size_t bytes) {
    if (head_ <= bytes) return;
    absl::MutexLock lock(&accounts_->mutex);
    accounts_->Set(Accounts::kHeads, identity_, &head_, bytes);
  }
  // 0 gives a stream's place back, too.
  void ShrinkPayload(size_t bytes) {
    const bool leaves = bytes == 0 && has_place_;
    if (payload_ <= bytes && !leaves) return;
    absl::MutexLock lock(&accounts_->mutex);
    if (leaves) LeavePlace();
    accounts_->Set(accounts_->PayloadOf(device_), identity_, &payload_,
                   std::min(payload_, bytes));
  }
  // Whether its job, begun now, would end after the deadline, by the measured
  // rate. Never of the only work there is: a rate that was low once would
  // refuse everything.
  bool IsTooLate(absl::Time deadline, absl::Time now) const {
    if (!work_ || deadline == absl::InfiniteFuture()) return false;
    absl::MutexLock lock(&accounts_->mutex);
    return accounts_->workload.count() > 1 &&
           accounts_->workload.TimeForAlone(*work_) > deadline - now;
  }
  // Its job is over. The rate is measured from these.
  void Served(absl::Time now) {
    if (!work_) return;
    absl::MutexLock lock(&accounts_->mutex);
    accounts_->now = std::max(accounts_->now, now);
    accounts_->workload.Ends(*std::exchange(work_, std::nullopt), true, now);
  }
  void Reset() {
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

 private:
  friend class Gate;
  void LeavePlace() ABSL_EXCLUSIVE_LOCKS_REQUIRED(accounts_->mutex) {
    size_t place = 1;
    accounts_->Set(accounts_->PlacesOf(device_), "", &place, 0);
    has_place_ = false;
  }

  std::shared_ptr<Accounts> accounts_;
  std::string identity_;
  Priority priority_ = Priority::kNormal;
  int device_ = 0;
  size_t receiving_ = 0;
  size_t head_ = 0;
  size_t payload_ = 0;
  bool has_place_ = false;  // a stream's
  // The message on its way; nothing once it is here.
  std::optional<Workload::Coming::iterator> coming_;
  std::optional<size_t> work_;  // since its message is here
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_LEASE_H_
