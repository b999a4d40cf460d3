// What the gate and its leases share: the accounts, the work there is, and
// their lock.
#ifndef QUANTD_SERVER_GATE_ACCOUNTS_H_
#define QUANTD_SERVER_GATE_ACCOUNTS_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/gate/budget.h"
#include "server/gate/steady_time.h"
#include "server/gate/workload.h"

namespace quantd {

struct Accounts {
  // `limits`: of messages and heads, then of payloads by device, then places
  // for streams by device.
  explicit Accounts(std::vector<size_t> limits)
      : devices((limits.size() - 2) / 2), budget(std::move(limits)) {}

  static constexpr Budget::Account kReceiving = 0, kHeads = 1;
  Budget::Account PayloadOf(int device) const { return 2 + device; }
  Budget::Account PlacesOf(int device) const { return 2 + devices + device; }

  // Sets what a lease holds of an account.
  void Set(Budget::Account account, const std::string& identity, size_t* held,
           size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const size_t before = std::exchange(*held, bytes);
    if (bytes > before) budget.Take(account, identity, bytes - before);
    if (bytes >= before) return;
    budget.Give(account, identity, before - bytes);
    if (awaited) Change();
  }
  // There is something to decide.
  void Change() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    changed = true;
    told.Signal();
  }

  const size_t devices;
  absl::Mutex mutex;
  Budget budget ABSL_GUARDED_BY(mutex);
  Workload workload ABSL_GUARDED_BY(mutex);
  absl::Time now ABSL_GUARDED_BY(mutex) = absl::InfinitePast();  // last told
  bool awaited ABSL_GUARDED_BY(mutex) = false;  // somebody waits for bytes
  bool changed ABSL_GUARDED_BY(mutex) = false;  // since the last decision
  SteadyCondVar told;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_ACCOUNTS_H_
