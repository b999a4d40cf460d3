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
  Lease(Lease&& other) noexcept : has_(std::exchange(other.has_, {})) {}
  Lease& operator=(Lease&& other) noexcept {
    Reset();
    has_ = std::exchange(other.has_, {});
    return *this;
  }
  ~Lease() { Reset(); }

  // The device of its payload.
  int device() const { return has_.device; }
  size_t receiving() const { return has_.receiving; }
  size_t head() const { return has_.head; }
  size_t payload() const { return has_.payload; }

  // Holds `bytes` in all for a message that is longer than was counted on and
  // still comes. False: the account has no room, and the lease stays as it is.
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
  // The message is here and needs `bytes` from now on; it is work of `work`
  // bytes until Served or Reset.
  void Arrived(size_t bytes, size_t work, absl::Time now) {
    if (has_.accounts == nullptr) return;
    absl::MutexLock lock(&has_.accounts->mutex);
    has_.accounts->now = std::max(has_.accounts->now, now);
    if (has_.coming) has_.accounts->workload.ComesNoMore(*has_.coming);
    has_.coming.reset();
    if (!has_.work) {
      has_.work = work;
      has_.accounts->workload.Begins(work, now);
    }
    has_.accounts->Set(Accounts::kReceiving, has_.identity, &has_.receiving,
                       bytes);
  }
  // Holds `bytes`, more or fewer than before. It never waits and is never
  // refused: for replies, and for small methods.
  void HoldReceiving(size_t bytes) {
    if (has_.accounts == nullptr || bytes == has_.receiving) return;
    absl::MutexLock lock(&has_.accounts->mutex);
    has_.accounts->Set(Accounts::kReceiving, has_.identity, &has_.receiving,
                       bytes);
  }
  // Hold at most `bytes` from now on.
  void ShrinkHead(size_t bytes) {
    if (has_.head <= bytes) return;
    absl::MutexLock lock(&has_.accounts->mutex);
    has_.accounts->Set(Accounts::kHeads, has_.identity, &has_.head, bytes);
  }
  // 0 gives a stream's place back, too.
  void ShrinkPayload(size_t bytes) {
    const bool leaves = bytes == 0 && has_.place;
    if (has_.payload <= bytes && !leaves) return;
    absl::MutexLock lock(&has_.accounts->mutex);
    if (leaves) LeavePlace();
    has_.accounts->Set(has_.accounts->PayloadOf(has_.device), has_.identity,
                       &has_.payload, std::min(has_.payload, bytes));
  }
  // Whether its job, begun now, would end after the deadline, by the measured
  // rate. Never of the only work there is: a rate that was low once would
  // refuse everything.
  bool JobEndsTooLate(absl::Time deadline, absl::Time now) const {
    if (!has_.work || deadline == absl::InfiniteFuture()) return false;
    absl::MutexLock lock(&has_.accounts->mutex);
    return has_.accounts->workload.count() > 1 &&
           has_.accounts->workload.TimeForAlone(*has_.work) > deadline - now;
  }
  // Its job is over. The rate is measured from these.
  void Served(absl::Time now) {
    if (!has_.work) return;
    absl::MutexLock lock(&has_.accounts->mutex);
    has_.accounts->now = std::max(has_.accounts->now, now);
    has_.accounts->workload.Ends(*std::exchange(has_.work, std::nullopt), true,
                                 now);
  }
  void Reset() {
    if (has_.accounts == nullptr) return;
    {
      absl::MutexLock lock(&has_.accounts->mutex);
      if (has_.coming) has_.accounts->workload.ComesNoMore(*has_.coming);
      // Given up at the last time that was told.
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
    bool place = false;  // a stream's
    // The message on its way; nothing once it is here.
    std::optional<Workload::Coming::iterator> coming;
    std::optional<size_t> work;  // since its message is here
  };
  Holdings has_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_LEASE_H_
