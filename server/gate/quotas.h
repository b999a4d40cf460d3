// Enforces what the token file grants a caller: a number of calls at once, and
// of request bytes a second.
#ifndef QUANTD_SERVER_GATE_QUOTAS_H_
#define QUANTD_SERVER_GATE_QUOTAS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/gate/caller.h"
#include "server/gate/steady_time.h"

namespace quantd {

// Bytes are charged when they are known: declared ones before they come, others
// as they come. A caller more than a second in debt is refused until the debt
// is paid. Debt, not credit, makes a large request possible at any rate.
//
// Threads: everything here may be used from any thread.
class Quotas {
 public:
  // One call in flight of a caller with quotas; empty for any other caller.
  // Move-only.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept { *this = std::move(other); }
    Lease& operator=(Lease&& other) noexcept {
      std::swap(quotas_, other.quotas_);
      std::swap(caller_, other.caller_);
      return *this;
    }
    ~Lease() {
      if (quotas_ == nullptr) return;
      absl::MutexLock lock(&quotas_->mutex_);
      const auto account = quotas_->accounts_.find(caller_->identity);
      if (--account->second.calls == 0 &&
          account->second.paid_until <= SteadyNow()) {
        quotas_->accounts_.erase(account);
      }
    }
    // Charges bytes that have come. Never refuses.
    void Pay(uint64_t bytes, absl::Time now) {
      if (quotas_ == nullptr) return;
      absl::MutexLock lock(&quotas_->mutex_);
      Charge(*caller_, bytes, now, &quotas_->accounts_[caller_->identity]);
    }

   private:
    friend class Quotas;
    Quotas* quotas_ = nullptr;
    std::shared_ptr<const Caller> caller_;
  };

  struct Refused {
    const char* what = nullptr;  // "calls in flight"; null: not refused
    absl::Duration delay;        // until a retry may succeed
  };

  // `bytes` is what the call is known to send.
  Refused Enter(const std::shared_ptr<const Caller>& caller, uint64_t bytes,
                absl::Time now, Lease* lease) {
    if (caller == nullptr ||
        (caller->calls_in_flight == 0 && caller->bytes_per_second == 0)) {
      return {};
    }
    absl::MutexLock lock(&mutex_);
    Account& account = accounts_[caller->identity];
    if (caller->calls_in_flight != 0 &&
        account.calls >= caller->calls_in_flight) {
      return {"calls in flight", kUntilACallEnds};
    }
    if (caller->bytes_per_second != 0 && account.paid_until > now + kBurst) {
      return {"bytes a second", account.paid_until - now - kBurst};
    }
    ++account.calls;
    Charge(*caller, bytes, now, &account);
    lease->quotas_ = this;
    lease->caller_ = caller;
    return {};
  }
  // Number of identities that an account is kept for.
  size_t remembered() const {
    absl::MutexLock lock(&mutex_);
    return accounts_.size();
  }

 private:
  // How far a caller may go into debt.
  static constexpr absl::Duration kBurst = absl::Seconds(1);
  // Retry delay of a caller whose calls in flight are used up: nobody knows
  // when one ends.
  static constexpr absl::Duration kUntilACallEnds = absl::Milliseconds(100);
  // Debt beyond this is forgiven, so that a rate set too low by mistake is no
  // lasting harm once it is raised.
  static constexpr absl::Duration kLongestDebt = absl::Minutes(1);

  struct Account {
    uint32_t calls = 0;
    // When all bytes so far would have come at the granted rate.
    absl::Time paid_until = absl::InfinitePast();
  };
  static void Charge(const Caller& caller, uint64_t bytes, absl::Time now,
                     Account* account) {
    if (caller.bytes_per_second == 0) return;
    const auto seconds = static_cast<double>(bytes) /
                         static_cast<double>(caller.bytes_per_second);
    account->paid_until =
        std::min(std::max(account->paid_until, now) + absl::Seconds(seconds),
                 now + kLongestDebt);
  }

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, Account> accounts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_QUOTAS_H_
