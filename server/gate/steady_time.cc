#include "server/gate/steady_time.h"

#include <chrono>

#include "absl/time/clock.h"

namespace quantd {
namespace {

using Clock = std::chrono::steady_clock;

struct Start {
  absl::Time wall = absl::Now();
  Clock::time_point steady = Clock::now();
};
const Start& TheStart() {
  static const Start start;
  return start;
}

// An absl::Mutex that is held, as the standard library takes locks.
struct Lock {
  void lock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex->Lock(); }
  void unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex->Unlock(); }
  absl::Mutex* mutex;
};

}  // namespace

absl::Time SteadyNow() {
  return TheStart().wall + absl::FromChrono(Clock::now() - TheStart().steady);
}

void SteadyCondVar::WaitUntil(absl::Mutex* mutex, absl::Time deadline) {
  Lock lock{mutex};
  const absl::Duration left = deadline - SteadyNow();
  // The clock's own count ends in the year 2262.
  if (left > absl::Hours(24 * 365)) return changed_.wait(lock);
  changed_.wait_until(lock, Clock::now() + absl::ToChronoNanoseconds(left));
}

}  // namespace quantd
