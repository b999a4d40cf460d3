// The share of the gate's accounts that one call holds.
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

// Gives everything back when destroyed. Move-only, not thread-safe. May be
// destroyed in a gRPC callback: takes a lock for a short time and never waits.
class Lease {
 public:
  Lease() = default;
  Lease(Lease&& other) noexcept : has_(std::exchange(other.has_, {})) {}
  Lease& operator=(Lease&& other) noexcept {
    Reset();
    has_ = std::exchange(other.has_, {});
    return *this;
  }
  ~Lease() { Reset(); }

  // The device of the call's payload.
  int device() const { return has_.device; }
  size_t receiving() const { return has_.receiving; }
  size_t head() const { return has_.head; }
  size_t payload() const { return has_.payload; }

  // Raises the holding to `bytes` for a message still on its way that is longer
  // than expected. Returns false, and changes nothing, if the account has no
  // room.
  bool GrowReceiving(size_t bytes) {
    if (has_.accounts == nullptr || bytes <= has_.receiving) return true;
    absl::MutexLock lock(&has_.accounts->mutex);
    if (!has_.accounts->budget.Fits(Accounts::kReceiving,
                                    bytes - has_.receiving))
      return false;
    has_.accounts->Set(Accounts::kReceiving, has_.identity, &has_.receiving,
                       bytes);
    return true;
  }
  // The message has arrived and needs `bytes` from now on. It counts as `work`
  // bytes of work until Served or Reset.
  void Arrived(size_t bytes, size_t work, absl::Time now) {
    if (has_.accounts == nullptr) return;
    absl::MutexLock lock(&has_.accounts->mutex);
    has_.accounts->Advance(now);
    if (has_.coming) has_.accounts->workload.ComesNoMore(*has_.coming);
    has_.coming.reset();
    if (!has_.work) {
      has_.work = work;
      has_.accounts->workload.Begins(work, now);
    }
    has_.accounts->Set(Accounts::kReceiving, has_.identity, &has_.receiving,
                       bytes);
  }
  // Holds `bytes`, more or fewer than before. Never waits and is never refused:
  // for replies, and for small methods.
  void HoldReceiving(size_t bytes) {
    if (has_.accounts == nullptr || bytes == has_.receiving) return;
    absl::MutexLock lock(&has_.accounts->mutex);
    has_.accounts->Set(Accounts::kReceiving, has_.identity, &has_.receiving,
                       bytes);
  }
  // Lowers the holding to at most `bytes`.
  void ShrinkHead(size_t bytes) {
    if (has_.head <= bytes) return;
    absl::MutexLock lock(&has_.accounts->mutex);
    has_.accounts->Set(Accounts::kHeads, has_.identity, &has_.head, bytes);
  }
  // Lowers the holding to at most `bytes`. 0 also gives back a stream's slot.
  void ShrinkPayload(size_t bytes) {
    const bool leaves = bytes == 0 && has_.place;
    if (has_.payload <= bytes && !leaves) return;
    absl::MutexLock lock(&has_.accounts->mutex);
    if (leaves) LeavePlace();
    has_.accounts->Set(has_.accounts->PayloadOf(has_.device), has_.identity,
                       &has_.payload, std::min(has_.payload, bytes));
  }
  // Whether a job that begins now would end after the deadline, at the measured
  // rate. Always false if it is the only work: a rate that was low once would
  // otherwise refuse everything.
  bool JobEndsTooLate(absl::Time deadline, absl::Time now) const {
    if (!has_.work || deadline == absl::InfiniteFuture()) return false;
    absl::MutexLock lock(&has_.accounts->mutex);
    return has_.accounts->workload.count() > 1 &&
           has_.accounts->workload.TimeForAlone(*has_.work) > deadline - now;
  }
  // Records that the job is over. The rate of work is measured from the calls
  // of this function.
  void Served(absl::Time now) {
    if (!has_.work) return;
    absl::MutexLock lock(&has_.accounts->mutex);
    has_.accounts->Advance(now);
    has_.accounts->workload.Ends(*std::exchange(has_.work, std::nullopt), true,
                                 now);
  }
  void Reset() {
    if (has_.accounts == nullptr) return;
    {
      absl::MutexLock lock(&has_.accounts->mutex);
      if (has_.coming) has_.accounts->workload.ComesNoMore(*has_.coming);
      // Unfinished work ends at the latest time that a caller gave, since none
      // is given here.
      if (has_.work)
        has_.accounts->workload.Ends(*has_.work, false, has_.accounts->now);
      has_.coming.reset();
      has_.work.reset();
      has_.accounts->Set(Accounts::kReceiving, has_.identity, &has_.receiving,
                         0);
      has_.accounts->Set(Accounts::kHeads, has_.identity, &has_.head, 0);
      has_.accounts->Set(has_.accounts->PayloadOf(has_.device), has_.identity,
                         &has_.payload, 0);
      if (has_.place) LeavePlace();
    }
    has_.accounts.reset();
  }

 private:
  friend class Gate;
  void LeavePlace() ABSL_EXCLUSIVE_LOCKS_REQUIRED(has_.accounts->mutex) {
    size_t place = 1;
    has_.accounts->Set(has_.accounts->PlacesOf(has_.device), "", &place, 0);
    has_.place = false;
  }

  struct Holdings {
    std::shared_ptr<Accounts> accounts;
    std::string identity;
    Priority priority = Priority::kNormal;
    int device = 0;
    size_t receiving = 0;
    size_t head = 0;
    size_t payload = 0;
    bool place = false;  // it holds a stream's slot
    // The message on its way; nullopt once it has arrived.
    std::optional<Workload::Coming::iterator> coming;
    std::optional<size_t> work;  // set once its message has arrived
  };
  Holdings has_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_LEASE_H_
