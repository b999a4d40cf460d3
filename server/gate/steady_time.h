// Time that nobody sets. An operator, NTP or a machine that was asleep may step
// the wall clock; waits and limits of a server must not notice: with the wall
// clock, an hour back makes of a wait of 20 ms one of an hour. absl waits by
// the wall clock even where it is given a duration.
//
// What is written in certificates is judged by the wall clock, nothing else.
#ifndef QUANTD_SERVER_GATE_STEADY_TIME_H_
#define QUANTD_SERVER_GATE_STEADY_TIME_H_

#include <chrono>
#include <condition_variable>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace quantd {

// What the wall clock would show, had it not been set since the process began.
inline absl::Time SteadyNow() {
  static const absl::Time wall = absl::Now();
  static const auto steady = std::chrono::steady_clock::now();
  return wall + absl::FromChrono(std::chrono::steady_clock::now() - steady);
}

// An absl::CondVar with deadlines of SteadyNow.
class SteadyCondVar {
 public:
  // `mutex` is held, and let go meanwhile. Returns when signalled, at
  // `deadline`, or for no reason.
  void WaitUntil(absl::Mutex* mutex, absl::Time deadline) {
    Lock lock{mutex};
    const absl::Duration left = deadline - SteadyNow();
    // The clock's own count ends in the year 2262.
    if (left > absl::Hours(24 * 365)) return changed_.wait(lock);
    changed_.wait_until(lock, std::chrono::steady_clock::now() +
                                  absl::ToChronoNanoseconds(left));
  }
  // Returns whether `condition` came true.
  template <typename Condition>
  bool WaitUntil(absl::Mutex* mutex, absl::Time deadline, Condition condition) {
    while (!condition()) {
      if (SteadyNow() >= deadline) return false;
      WaitUntil(mutex, deadline);
    }
    return true;
  }
  void Signal() { changed_.notify_one(); }
  void SignalAll() { changed_.notify_all(); }

 private:
  // The mutex, which is held, as the standard library takes locks.
  struct Lock {
    void lock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex->Lock(); }
    void unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex->Unlock(); }
    absl::Mutex* mutex;
  };

  std::condition_variable_any changed_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_STEADY_TIME_H_
