// The gate lets each call in now, makes it wait, or says when to come again.
//
// Memory is counted in bytes by account (server/gate/accounts.h). What a call
// was granted is a lease (server/gate/lease.h), which gives it all back when
// destroyed. A call asks in this order, for bytes of these accounts:
//   AdmitMessage  receiving  messages, on their way or here, and small replies
//   AdmitHead     heads      long lists and reply heads; only for long lists
//   AdmitJob      payload    staging and output memory, and slots of streams
//
// Only the wait for message memory is bounded here, in callers and in bytes.
// Later waiters already hold a message, so the message account bounds them.
//
// The caller provides the clock. Only Decide serves and refuses waiters.
// GateThread calls it when something has changed or a time has come.
//
// Threads: all may be used from any thread, Decide from one at a time.
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
  kTooLate,  // for its deadline, at the measured rate
  kNoDevice,
  kStopped,
};

// Bounds of the time after which a refused call may come again. With a shorter
// time a crowd of clients would do nothing but ask; a longer one leaves the
// server idle.
inline constexpr absl::Duration kSoonestRetry = absl::Milliseconds(50);
inline constexpr absl::Duration kLatestRetry = absl::Seconds(5);

class Gate {
 public:
  struct Limits {
    size_t receiving = 0;         // bytes of messages, on their way or here
    size_t heads = 0;             // bytes of long lists and reply heads
    std::vector<size_t> devices;  // bytes of staging and output, by device
    std::vector<size_t> streams;  // stream slots, by device
    size_t max_waiting = 128;     // for messages
    absl::Duration max_wait = absl::Seconds(10);
  };
  struct Ask {
    size_t bytes = 0;  // what the message needs
    // The identity charged for the bytes; empty: a share of its own.
    std::string identity;
    Priority priority = Priority::kNormal;
    absl::Time deadline = absl::InfiniteFuture();
  };
  struct Answer {
    Outcome outcome;
    // When to come again. Set with kBusy and kTooLate.
    absl::Duration retry_after = absl::ZeroDuration();
  };
  class Waiter {
   public:
    virtual ~Waiter() = default;
    // Called once for each ask that waits, unless Forget returned true, with no
    // lock of the gate held. With kGranted the lease holds what was asked for;
    // otherwise it is unchanged. kBusy: the wait took max_wait, or the line was
    // full and calls with a smaller share or a higher priority took its place.
    virtual void OnAdmitted(Outcome outcome, Lease lease) = 0;
  };
  enum class Availability : char { kTakesWork, kSoon, kLost };

  static std::shared_ptr<Gate> Create(Limits limits);
  Gate(const Gate&) = delete;

  // Asks for a message's memory. kGranted fills `lease`; kWaiting moves it into
  // the gate until OnAdmitted.
  Answer AdmitMessage(const Ask& ask, absl::Time now, Waiter* waiter,
                      Lease* lease);
  // Returns a lease for a small method (health, information). Never waits and
  // is never refused.
  Lease Track(size_t bytes, std::string identity);
  // Asks for the memory of long lists, for a call whose message is here.
  Answer AdmitHead(size_t bytes, absl::Time deadline, absl::Time now,
                   Waiter* waiter, Lease* lease);
  // Asks for staging and output memory. `device` -1: the device with the most
  // room. A stream also takes one of the device's stream slots.
  Answer AdmitJob(size_t bytes, int device, bool is_stream, absl::Time deadline,
                  absl::Time now, Waiter* waiter, Lease* lease);
  // Withdraws a waiter and releases its lease. Returns false if it does not
  // wait: it was not queued, or OnAdmitted has been or will be called.
  bool Forget(Waiter* waiter);
  void SetAvailable(std::vector<Availability> devices) {
    absl::MutexLock lock(&accounts_->mutex);
    available_ = std::move(devices);
    accounts_->Change();
  }

  // Whether a call has been waiting since `time` or earlier.
  bool OthersWaitSince(absl::Time time) const {
    absl::MutexLock lock(&accounts_->mutex);
    return std::min({messages_.oldest(), heads_.oldest(),
                     payloads_.oldest()}) <= time;
  }
  // Expected time until everything that is here or waits is served.
  absl::Duration RetryAfter(absl::Time now) const {
    absl::MutexLock lock(&accounts_->mutex);
    return RetryAfterLocked(now);
  }

  // Serves and refuses waiters, and tells them.
  void Decide(absl::Time now);
  // When Decide next has something to do if nothing changes before.
  absl::Time NextDecision() const {
    absl::MutexLock lock(&accounts_->mutex);
    return next_;
  }
  // Blocks until NextDecision, by the clock `now`, or until something changes.
  // Returns false once the gate is stopped: Decide must then be called one last
  // time.
  bool AwaitDecision(const std::function<absl::Time()>& now);
  // Admits nobody from now on. The next Decide tells those who wait.
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
  size_t used() const;  // bytes in all accounts
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
  // Whether the asking identity, with all that it holds, would leave enough of
  // an account to others.
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
  // Must be called after every change of the wait lists.
  void NoteWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(accounts_->mutex) {
    accounts_->awaited =
        !messages_.empty() || !heads_.empty() || !payloads_.empty();
  }

  const Limits limits_;
  // Its lock guards everything below, too.
  const std::shared_ptr<Accounts> accounts_;
  // Waiters for messages, for heads and for payloads. Those in `displaced_`
  // left the first list to make room, and have yet to be told.
  WaitList messages_ ABSL_GUARDED_BY(accounts_->mutex),
      heads_ ABSL_GUARDED_BY(accounts_->mutex),
      payloads_ ABSL_GUARDED_BY(accounts_->mutex),
      displaced_ ABSL_GUARDED_BY(accounts_->mutex);
  std::vector<Availability> available_ ABSL_GUARDED_BY(accounts_->mutex);
  size_t next_device_ ABSL_GUARDED_BY(accounts_->mutex) = 0;
  bool stopped_ ABSL_GUARDED_BY(accounts_->mutex) = false;
  absl::Time next_ ABSL_GUARDED_BY(accounts_->mutex) = absl::InfiniteFuture();
};

// Runs Gate::Decide on a thread of its own.
class GateThread {
 public:
  // `now` is the clock to decide by.
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

  // Stops the gate. Every waiter has been told when this returns.
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
