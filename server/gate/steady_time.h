// A clock that nobody can set. An operator, NTP or a machine that was asleep
// may step the wall clock. Waits and limits must not notice: a step back by an
// hour would turn a wait of 20 ms into one of an hour. absl waits by the wall
// clock even if given a duration.
//
// Only the dates in certificates are judged by the wall clock.
#ifndef QUANTD_SERVER_GATE_STEADY_TIME_H_
#define QUANTD_SERVER_GATE_STEADY_TIME_H_

#include <chrono>
#include <condition_variable>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace quantd {

// The time that the wall clock would show if it had not been set since the
// process began.
inline absl::Time SteadyNow() {
  static const absl::Time wall = absl::Now();
  static const auto steady = std::chrono::steady_clock::now();
  return wall + absl::FromChrono(std::chrono::steady_clock::now() - steady);
}

// An absl::CondVar with deadlines in SteadyNow time.
class SteadyCondVar {
 public:
  // `mutex` must be held, and is released while waiting. Returns when
  // signalled, at `deadline`, or spuriously.
  void WaitUntil(absl::Mutex* mutex, absl::Time deadline) {
    Lock lock{mutex};
    const absl::Duration left = deadline - SteadyNow();
    // Nanoseconds of the clock overflow in the year 2262.
    if (left > absl::Hours(24 * 365)) return changed_.wait(lock);
    changed_.wait_until(lock, std::chrono::steady_clock::now() +
                                  absl::ToChronoNanoseconds(left));
  }
  // Returns whether `condition` became true before `deadline`.
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
  // Adapts a held mutex to the standard library's lock interface.
  struct Lock {
    void lock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex->Lock(); }
    void unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex->Unlock(); }
    absl::Mutex* mutex;
  };

  std::condition_variable_any changed_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_STEADY_TIME_H_
