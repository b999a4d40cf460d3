// What the token file grants a caller: so many calls at once, and so many bytes
// of requests a second.
//
// Bytes are paid for when they are known: declared ones before they come,
// others as they come. Who has come more than a second into debt is refused
// until he is out of it, so that a large request is possible at any rate.
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_SERVER_GATE_QUOTAS_H_
#define QUANTD_SERVER_GATE_QUOTAS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/gate/caller.h"

namespace quantd {

class Quotas {
 public:
  // One call of a caller with quotas; empty of any other. Move-only.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept { *this = std::move(other); }
    Lease& operator=(Lease&& other) noexcept {
      std::swap(quotas_, other.quotas_);
      std::swap(caller_, other.caller_);
      return *this;
    }
    ~Lease();
    // For bytes that have come. Never refuses.
    void Pay(uint64_t bytes, absl::Time now);

   private:
    friend class Quotas;
    Quotas* quotas_ = nullptr;
    std::shared_ptr<const Caller> caller_;
  };

  struct Refused {
    const char* what = nullptr;  // "calls in flight"; null: none
    absl::Duration delay;        // until it may be otherwise
  };

  // `bytes`: what is known that will come.
  Refused Enter(const std::shared_ptr<const Caller>& caller, uint64_t bytes,
                absl::Time now, Lease* lease);
  // Identities that a state is kept of.
  size_t remembered() const;

 private:
  struct Account {
    uint32_t calls = 0;
    // When all bytes would have come at the granted rate.
    absl::Time paid_until = absl::InfinitePast();
  };
  static void Charge(const Caller& caller, uint64_t bytes, absl::Time now,
                     Account* account);

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, Account> accounts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_QUOTAS_H_
