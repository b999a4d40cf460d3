// The gate: which calls may come in now, and which wait or come again.
//
// Memory is counted in bytes by account: messages (on their way or here), long
// lists and reply heads, and the staging and output of each device. A call asks
// before it takes: for its message, then for its lists where they are long,
// then for its payload. What it got is a lease (server/gate/lease.h), which
// gives all back by itself.
//
//   AdmitMessage -> message comes -> AdmitHead, if long -> AdmitPayload -> job
//
// Waiters are bounded for messages alone, in number and in bytes; the others
// hold a message, so that its account bounds them.
//
// The clock is the caller's. Decide is the one step in which waiters are served
// and refused; GateThread takes it when something has changed or a time has
// come.
//
// Threads: everything here may be used from any thread, Decide from one at a
// time.
#ifndef QUANTD_SERVER_GATE_GATE_H_
#define QUANTD_SERVER_GATE_GATE_H_

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/gate/accounts.h"
#include "server/gate/budget.h"
#include "server/gate/caller.h"
#include "server/gate/lease.h"
#include "server/gate/steady_time.h"
#include "server/gate/wait_list.h"

namespace quantd {

enum class Outcome {
  kGranted,
  kWaiting,
  kBusy,
  kTooLate,  // for its deadline, by the measured rate
  kNoDevice,
  kStopped,
};

// When a call that is refused may come again. Sooner, a crowd would do nothing
// but ask; later, a server could stand idle meanwhile.
inline constexpr absl::Duration kSoonestRetry = absl::Milliseconds(50);
inline constexpr absl::Duration kLatestRetry = absl::Seconds(5);

class Gate {
 public:
  struct Limits {
    size_t receiving = 0;         // bytes of messages, on their way or here
    size_t heads = 0;             // bytes of long lists and reply heads
    std::vector<size_t> devices;  // bytes of staging and output, by device
    std::vector<size_t> streams;  // places for streams, by device
    size_t max_waiting = 128;     // for messages
    absl::Duration max_wait = absl::Seconds(10);
  };
  struct Ask {
    size_t bytes = 0;      // that the message needs
    std::string identity;  // whose share it is; empty: a share of its own
    Priority priority = Priority::kNormal;
    absl::Time deadline = absl::InfiniteFuture();
  };
  struct Answer {
    Outcome outcome;
    // When to come again; of kBusy and kTooLate.
    absl::Duration retry_after = absl::ZeroDuration();
  };
  class Waiter {
   public:
    virtual ~Waiter() = default;
    // Told once for each ask that waits, unless Forget said true: kGranted with
    // what was asked for, or why not, with the lease as it was. kBusy: it has
    // waited as long as it may, or others with a smaller share, or of a higher
    // priority, took its place in the line. No lock of the gate is held.
    virtual void OnAdmitted(Outcome outcome, Lease lease) = 0;
  };
  enum class Availability : char { kTakesWork, kSoon, kLost };

  static std::shared_ptr<Gate> Create(Limits limits);
  Gate(const Gate&) = delete;

  // The lease is changed by kGranted, and taken along by kWaiting.
  Answer AdmitMessage(const Ask& ask, absl::Time now, Waiter* waiter,
                      Lease* lease);
  // A lease for a small method (health, information), which never waits and is
  // never refused.
  Lease Track(size_t bytes, std::string identity);
  // More for a call whose message is here.
  Answer AdmitHead(size_t bytes, absl::Time deadline, absl::Time now,
                   Waiter* waiter, Lease* lease);
  // `device` -1: the one with the most room. A stream gets one of the device's
  // places for streams, too.
  Answer AdmitPayload(size_t bytes, int device, bool is_stream,
                      absl::Time deadline, absl::Time now, Waiter* waiter,
                      Lease* lease);
  // True: the waiter waited, and will not be told. Its lease is given back.
  bool Forget(Waiter* waiter);
  void SetAvailable(std::vector<Availability> devices) {
    absl::MutexLock lock(&accounts_->mutex);
    available_ = std::move(devices);
    accounts_->Change();
  }

  // Whether a call has waited since `time` or before.
  bool OthersWaitSince(absl::Time time) const {
    absl::MutexLock lock(&accounts_->mutex);
    return std::min({messages_.oldest(), heads_.oldest(),
                     payloads_.oldest()}) <= time;
  }
  // The time in which all that is here and waits will be served.
  absl::Duration RetryAfter(absl::Time now) const {
    absl::MutexLock lock(&accounts_->mutex);
    return RetryAfterLocked(now);
  }

  // Tells waiters what has become of their asks.
  void Decide(absl::Time now);
  // When Decide has something to do, if nothing changes before.
  absl::Time NextDecision() const {
    absl::MutexLock lock(&accounts_->mutex);
    return next_;
  }
  // Waits for that time, which `now` tells, or a change. False: for the last
  // time, since the gate is stopped.
  bool AwaitDecision(const std::function<absl::Time()>& now);
  // Nobody is let in any more. Decide tells those who wait.
  void Stop() {
    absl::MutexLock lock(&accounts_->mutex);
    stopped_ = true;
    accounts_->Change();
  }

  size_t receiving_used() const { return Used(Accounts::kReceiving); }
  size_t head_used() const { return Used(Accounts::kHeads); }
  size_t payload_used(int device) const {
    return Used(accounts_->PayloadOf(device));
  }
  size_t streams_used(int device) const {
    return Used(accounts_->PlacesOf(device));
  }
  size_t used() const;  // bytes in all
  size_t waiting() const {
    absl::MutexLock lock(&accounts_->mutex);
    return messages_.size() + heads_.size() + payloads_.size();
  }
  const Limits& limits() const { return limits_; }

 private:
  struct Asking;

  explicit Gate(Limits limits);

  size_t Used(Budget::Account account) const {
    absl::MutexLock lock(&accounts_->mutex);
    return accounts_->budget.used(account);
  }
  Answer Enter(WaitList* waiters, std::unique_ptr<Asking> asking,
               absl::Time now, Lease* lease);
  bool WouldBeLate(size_t bytes, size_t before, absl::Time deadline,
                   absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(accounts_->mutex);
  // Whether the identity that asks, with all that it holds, would leave others
  // their part of an account.
  bool LeavesEnough(Budget::Account account, const Asking& asking,
                    const Lease& lease, absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(accounts_->mutex);
  bool HasDevice(int device) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(accounts_->mutex);
  // Takes what is asked for into `lease`, see WaitList::Take.
  WaitList::Lanes Take(const WaitList* waiters, const Asking& asking,
                       Lease* lease, WaitList::Lanes kept, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(accounts_->mutex);
  WaitList::Lanes TakePayload(const Asking& asking, Lease* lease,
                              WaitList::Lanes kept, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(accounts_->mutex);
  absl::Duration RetryAfterLocked(absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(accounts_->mutex);
  // After a change of what waits.
  void NoteWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(accounts_->mutex) {
    accounts_->awaited =
        !messages_.empty() || !heads_.empty() || !payloads_.empty();
  }

  const Limits limits_;
  // Whose lock guards everything here, too.
  const std::shared_ptr<Accounts> accounts_;
  // For messages, for heads, for payloads; and those that left the first to
  // make room, and are to be told.
  WaitList messages_ ABSL_GUARDED_BY(accounts_->mutex),
      heads_ ABSL_GUARDED_BY(accounts_->mutex),
      payloads_ ABSL_GUARDED_BY(accounts_->mutex),
      displaced_ ABSL_GUARDED_BY(accounts_->mutex);
  std::vector<Availability> available_ ABSL_GUARDED_BY(accounts_->mutex);
  size_t next_device_ ABSL_GUARDED_BY(accounts_->mutex) = 0;
  bool stopped_ ABSL_GUARDED_BY(accounts_->mutex) = false;
  absl::Time next_ ABSL_GUARDED_BY(accounts_->mutex) = absl::InfiniteFuture();
};

// The thread that takes the decisions.
class GateThread {
 public:
  // By the time that `now` tells.
  explicit GateThread(std::shared_ptr<Gate> gate,
                      std::function<absl::Time()> now = SteadyNow)
      : gate_(std::move(gate)), thread_([gate = gate_, now = std::move(now)] {
          bool more = true;
          while (more) {
            more = gate->AwaitDecision(now);
            gate->Decide(now());
          }
        }) {}
  ~GateThread() { Stop(); }
  GateThread(const GateThread&) = delete;

  // Stops the gate; who waited has been told when this returns.
  void Stop() {
    gate_->Stop();
    if (thread_.joinable()) thread_.join();
  }

 private:
  const std::shared_ptr<Gate> gate_;
  std::thread thread_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_GATE_H_
