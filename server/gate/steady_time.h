// Time that nobody sets. An operator, NTP or a machine that was asleep may step
// the wall clock; waits and limits of a server must not notice: with the wall
// clock, an hour back makes of a wait of 20 ms one of an hour. absl waits by
// the wall clock even where it is given a duration.
//
// What is written in certificates is judged by the wall clock, nothing else.
#ifndef QUANTD_SERVER_GATE_STEADY_TIME_H_
#define QUANTD_SERVER_GATE_STEADY_TIME_H_

#include <condition_variable>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace quantd {

// What the wall clock would show, had it not been set since the process began.
absl::Time SteadyNow();

// As absl::CondVar, by deadlines of SteadyNow.
class SteadyCondVar {
 public:
  // `mutex` is held, and let go meanwhile. Returns when signalled, at
  // `deadline`, or for no reason.
  void WaitUntil(absl::Mutex* mutex, absl::Time deadline);
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
  std::condition_variable_any changed_;
};

}  // namespace quantd

#endif  // QUANTD_SERVER_GATE_STEADY_TIME_H_
