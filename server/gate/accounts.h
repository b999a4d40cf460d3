// State shared by the gate and its leases: the accounts, the workload and the
// lock that guards both.
#ifndef QUANTD_SERVER_GATE_ACCOUNTS_H_
#define QUANTD_SERVER_GATE_ACCOUNTS_H_

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/gate/budget.h"
#include "server/gate/steady_time.h"

namespace quantd {

// Tracks how much work the server has and how fast it does it. Work is counted
// in bytes of requests. The rate is what was served in each second in which
// there was work, averaged over a short window.
class Workload {
 public:
  // Messages on their way, by the time after which they no longer count.
  using Coming = std::multimap<absl::Time, double>;

  // Records a message on its way. It counts for twice the time in which it and
  // everything before it should be served, so a message that arrives much more
  // slowly than the server works delays nobody.
  Coming::iterator Comes(size_t bytes, absl::Time now) {
    return coming_.emplace(now + 2 * TimeFor(0, bytes, now), WorkOf(bytes));
  }
  void ComesNoMore(Coming::iterator message) { coming_.erase(message); }

  // Record that a message of `bytes` has arrived, and that its work has ended,
  // successfully or not.
  void Begins(size_t bytes, absl::Time now) {
    if (begun_++ == 0) busy_since_ = now;
    here_ += WorkOf(bytes);
  }
  void Ends(size_t bytes, bool served, absl::Time now) {
    here_ = --begun_ == 0 ? 0 : std::max(0.0, here_ - WorkOf(bytes));
    busy_ += std::max(now - busy_since_, absl::ZeroDuration());
    busy_since_ = std::max(now, busy_since_);
    if (served) served_ += WorkOf(bytes);
    if (busy_ < kSample || served_ == 0) return;
    const double sample = served_ / absl::ToDoubleSeconds(busy_);
    // Averaged with the last rate: one slow sample alone would cause later
    // calls to be refused.
    rate_ = rate_ == 0 ? sample : (rate_ + sample) / 2;
    busy_ = absl::ZeroDuration();
    served_ = 0;
  }

  // Time until the work that is here or on its way, and `waiting` and `own`
  // bytes, are served. Zero while no rate is known.
  absl::Duration TimeFor(size_t waiting, size_t own, absl::Time now) const {
    if (rate_ == 0) return absl::ZeroDuration();
    double work = static_cast<double>(waiting) + WorkOf(own);
    if (begun_ != 0) {
      // Running work is partly done. At most half is assumed done: a job that
      // hangs must not pass for finished.
      const double done = rate_ * absl::ToDoubleSeconds(now - busy_since_);
      work += std::max(here_ - done, here_ / 2);
    }
    for (auto c = coming_.upper_bound(now); c != coming_.end(); ++c) {
      work += c->second;
    }
    return absl::Seconds(work / rate_);
  }
  // Time that `own` bytes take on an idle server.
  absl::Duration TimeForAlone(size_t own) const {
    return rate_ == 0 ? absl::ZeroDuration()
                      : absl::Seconds(WorkOf(own) / rate_);
  }
  // Number of messages that are here.
  int count() const { return begun_; }
  bool IsIdle(absl::Time now) const {
    return begun_ == 0 && coming_.upper_bound(now) == coming_.end();
  }

 private:
  // Busy time that makes one sample. A shorter one would measure a single call.
  static constexpr absl::Duration kSample = absl::Milliseconds(100);
  // Cost of a call beside its bytes. Without it small calls make the server
  // look slow, and large ones are refused.
  static constexpr double kOfCall = 32 << 10;
  static double WorkOf(size_t bytes) {
    return static_cast<double>(bytes) + kOfCall;
  }

  double rate_ = 0;  // bytes a second; 0: unknown
  Coming coming_;
  double here_ = 0;  // work that has begun
  int begun_ = 0;
  absl::Time busy_since_ = absl::InfinitePast();
  // Since the last sample.
  absl::Duration busy_ = absl::ZeroDuration();
  double served_ = 0;
};

struct Accounts {
  // An identity that holds nothing still counts as one that shares the memory
  // for this time, or up to twice as long: clients pause between calls.
  static constexpr absl::Duration kRemembered = absl::Seconds(1);

  // `limits` lists the limits of messages and of heads, then of each device's
  // payloads, then of each device's stream slots.
  explicit Accounts(std::vector<size_t> limits)
      : devices((limits.size() - 2) / 2), budget(std::move(limits)) {}

  static constexpr Budget::Account kReceiving = 0, kHeads = 1;
  Budget::Account PayloadOf(int device) const { return 2 + device; }
  // The stream slots of a device, each counted as one byte.
  Budget::Account PlacesOf(int device) const { return 2 + devices + device; }

  // Sets what a lease holds in an account.
  void Set(Budget::Account account, const std::string& identity, size_t* held,
           size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const size_t before = std::exchange(*held, bytes);
    if (bytes > before) budget.Take(account, identity, bytes - before);
    if (bytes >= before) return;
    budget.Give(account, identity, before - bytes);
    if (awaited) Change();
  }
  void Advance(absl::Time to) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    now = std::max(now, to);
    if (now < forgot + kRemembered) return;
    forgot = now;
    budget.ForgetIdle();
  }
  // Wakes the gate's thread to decide again.
  void Change() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    changed = true;
    told.Signal();
  }

  const size_t devices;
  absl::Mutex mutex;
  Budget budget ABSL_GUARDED_BY(mutex);
  Workload workload ABSL_GUARDED_BY(mutex);
  // The latest time that a caller has given.
  absl::Time now ABSL_GUARDED_BY(mutex) = absl::InfinitePast();
  absl::Time forgot ABSL_GUARDED_BY(mutex) = absl::InfinitePast();
  bool awaited ABSL_GUARDED_BY(mutex) = false;  // somebody waits for bytes
  bool changed ABSL_GUARDED_BY(mutex) = false;  // since the last decision
  SteadyCondVar told;  // signalled when `changed` is set
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_ACCOUNTS_H_
