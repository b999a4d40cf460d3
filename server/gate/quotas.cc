#include "server/gate/quotas.h"

#include <algorithm>

#include "absl/time/clock.h"
#include "server/gate/steady_time.h"

namespace quantd {
namespace {

// How far into debt a caller may come.
constexpr absl::Duration kBurst = absl::Seconds(1);
// Calls in flight end when they do; a caller who waits so long finds out.
constexpr absl::Duration kUntilACallEnds = absl::Milliseconds(100);
// A debt beyond this is forgiven: of a rate that was set by mistake, or raised.
constexpr absl::Duration kLongestDebt = absl::Minutes(1);

}  // namespace

Quotas::Lease::~Lease() {
  if (quotas_ == nullptr) return;
  absl::MutexLock lock(&quotas_->mutex_);
  const auto account = quotas_->accounts_.find(caller_->identity);
  if (--account->second.calls == 0 &&
      account->second.paid_until <= SteadyNow()) {
    quotas_->accounts_.erase(account);
  }
}

void Quotas::Lease::Pay(uint64_t bytes, absl::Time now) {
  if (quotas_ == nullptr) return;
  absl::MutexLock lock(&quotas_->mutex_);
  Charge(*caller_, bytes, now, &quotas_->accounts_[caller_->identity]);
}

void Quotas::Charge(const Caller& caller, uint64_t bytes, absl::Time now,
                    Account* account) {
  if (caller.bytes_per_second == 0) return;
  const auto seconds =
      static_cast<double>(bytes) / static_cast<double>(caller.bytes_per_second);
  account->paid_until =
      std::min(std::max(account->paid_until, now) + absl::Seconds(seconds),
               now + kLongestDebt);
}

Quotas::Refused Quotas::Enter(const std::shared_ptr<const Caller>& caller,
                              uint64_t bytes, absl::Time now, Lease* lease) {
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

size_t Quotas::remembered() const {
  absl::MutexLock lock(&mutex_);
  return accounts_.size();
}

}  // namespace quantd
