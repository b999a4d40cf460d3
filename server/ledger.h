// The ledger: every byte of payload memory that a call may use, counted before
// it is used.
//
// There are two kinds of accounts. `receive` is memory that gRPC fills while a
// message arrives; there is one account. `payload` is what a device's block
// pool lends for staging and output; there is one account for each device.
//
// A call asks once, before its message is read, for all it can need, and
// gives back what turns out not to be needed. So no call that holds memory
// waits for more, except a grower (see Ask), of which one may wait at a time.
//
// Threads: everything here may be used from any thread.
#ifndef QUANTD_SERVER_LEDGER_H_
#define QUANTD_SERVER_LEDGER_H_

#include <chrono>
#include <cstddef>
#include <list>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace quantd {

struct MemoryNeed {
  size_t receive = 0;
  size_t payload = 0;
};

class MemoryLedger;

// What one call holds. Gives it back on destruction. Move-only, not
// thread-safe. Safe to destroy in a gRPC callback: a short lock, no wait.
class MemoryCharge {
 public:
  MemoryCharge() = default;
  MemoryCharge(MemoryCharge&& other) noexcept { *this = std::move(other); }
  MemoryCharge& operator=(MemoryCharge&& other) noexcept;
  ~MemoryCharge() { Reset(); }

  int device() const { return device_; }
  const MemoryNeed& held() const { return held_; }

  // Gives back what is held above `receive` and `payload`.
  void ShrinkReceive(size_t receive) noexcept;
  void ShrinkPayload(size_t payload) noexcept;
  void Reset() noexcept;
  // Takes over what `other`, of the same device, holds.
  void Merge(MemoryCharge other);

 private:
  friend class MemoryLedger;
  std::shared_ptr<MemoryLedger> ledger_;
  MemoryNeed held_;
  int device_ = 0;
};

class MemoryLedger : public std::enable_shared_from_this<MemoryLedger> {
 public:
  struct Limits {
    size_t receive = 0;
    std::vector<size_t> payload;  // one for each device
    size_t max_waiting = 128;
    absl::Duration max_wait = absl::Seconds(10);
  };

  enum class Outcome {
    kGranted,
    kWaiting,   // only from Admit: the waiter will be told
    kFull,      // only from Admit: too many wait already
    kTimedOut,  // only to a waiter: its time or the ledger's limit is over
    kStopped,   // the ledger was stopped
  };

  // Told once, on the ledger's thread, unless Forget said true.
  class Waiter {
   public:
    virtual ~Waiter() = default;
    virtual void OnMemory(Outcome outcome, MemoryCharge charge) = 0;
  };

  struct Ask {
    MemoryNeed need;
    // Negative: the device with the least payload lent that has room.
    int device = -1;
    // More memory for a call that has some: served before all others.
    bool grow = false;
    absl::Time deadline = absl::InfiniteFuture();
  };

  static std::shared_ptr<MemoryLedger> Create(Limits limits);
  ~MemoryLedger();  // Stop must have been called

  // First come, first served; never overtakes one who waits.
  Outcome Admit(const Ask& ask, Waiter* waiter, MemoryCharge* charge);

  // True: the waiter was waiting, and will not be told any more.
  bool Forget(Waiter* waiter);

  // Whether an empty ledger could grant it.
  bool CouldFit(const MemoryNeed& need) const;

  // How long a refused caller should stay away: about as long as the first in
  // the queue has waited, within 50 ms and 5 s.
  absl::Duration RetryDelay() const;

  // Tells every waiter kStopped and refuses from then on. Blocks until no
  // callback runs. Charges may still come back later.
  void Stop();

  size_t receive_used() const;
  size_t payload_used(int device) const;
  size_t used() const;  // all accounts
  size_t waiting() const;
  const Limits& limits() const { return limits_; }

 private:
  friend class MemoryCharge;
  struct Waiting {
    Ask ask;
    Waiter* waiter;
    absl::Time since;
    absl::Time until;
  };

  explicit MemoryLedger(Limits limits);
  void Return(int device, const MemoryNeed& need) noexcept;
  // Index of the device that can serve `ask` now, or -1.
  int FindRoom(const Ask& ask) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  MemoryCharge Take(int device, const MemoryNeed& need)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunThread();

  const Limits limits_;
  mutable absl::Mutex mutex_;
  absl::CondVar changed_;
  size_t receive_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<size_t> payload_ ABSL_GUARDED_BY(mutex_);
  std::list<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t next_device_ ABSL_GUARDED_BY(mutex_) = 0;  // breaks ties in turn
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_LEDGER_H_
