// What the gate and its leases share: the accounts, the work there is, and
// their lock.
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

// How much work the server has, and how fast it is done. Work is bytes of
// requests. The rate is what was served in each second in which there was work,
// over a short window.
class Workload {
 public:
  // Messages on their way, by the time from which they do not count any more.
  using Coming = std::multimap<absl::Time, double>;

  // A message is on its way. It counts for twice the time in which everything
  // before it and it should have been served: one that comes much more slowly
  // than the server works delays nobody.
  Coming::iterator Comes(size_t bytes, absl::Time now) {
    return coming_.emplace(now + 2 * TimeFor(0, bytes, now), WorkOf(bytes));
  }
  void ComesNoMore(Coming::iterator message) { coming_.erase(message); }

  // A message of so many bytes is here; its work ends, well or not.
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
    // By itself, one slow sample would refuse those who come after it.
    rate_ = rate_ == 0 ? sample : (rate_ + sample) / 2;
    busy_ = absl::ZeroDuration();
    served_ = 0;
  }

  // The time until what is here, what comes, `waiting` and `own` bytes are
  // served; no time while no rate is known.
  absl::Duration TimeFor(size_t waiting, size_t own, absl::Time now) const {
    if (rate_ == 0) return absl::ZeroDuration();
    double work = static_cast<double>(waiting) + WorkOf(own);
    if (begun_ != 0) {
      // What runs is done in part: in half at most, or what hangs would be
      // taken for done.
      const double done = rate_ * absl::ToDoubleSeconds(now - busy_since_);
      work += std::max(here_ - done, here_ / 2);
    }
    for (auto c = coming_.upper_bound(now); c != coming_.end(); ++c) {
      work += c->second;
    }
    return absl::Seconds(work / rate_);
  }
  // The time that `own` bytes take by themselves.
  absl::Duration TimeForAlone(size_t own) const {
    return rate_ == 0 ? absl::ZeroDuration()
                      : absl::Seconds(WorkOf(own) / rate_);
  }
  // Messages that are here.
  int count() const { return begun_; }
  bool IsIdle(absl::Time now) const {
    return begun_ == 0 && coming_.upper_bound(now) == coming_.end();
  }

 private:
  // The busy time of one sample. A shorter one takes a single call for the
  // rate.
  static constexpr absl::Duration kSample = absl::Milliseconds(100);
  // What a call costs beside its bytes. Without it small calls make the server
  // look slow, and large ones are refused.
  static constexpr double kOfCall = 32 << 10;
  static double WorkOf(size_t bytes) {
    return static_cast<double>(bytes) + kOfCall;
  }

  double rate_ = 0;  // bytes a second; 0: unknown
  Coming coming_;
  double here_ = 0;  // of what has begun
  int begun_ = 0;
  absl::Time busy_since_ = absl::InfinitePast();
  // Since the last sample.
  absl::Duration busy_ = absl::ZeroDuration();
  double served_ = 0;
};

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
