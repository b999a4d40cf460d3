#include "server/gate/steady_time.h"

#include <gtest/gtest.h>

#include <thread>

#include "absl/time/clock.h"

namespace quantd {
namespace {

TEST(SteadyTimeTest, PassesAsFastAsTheClock) {
  const absl::Time wall = absl::Now();
  const absl::Time before = SteadyNow();
  EXPECT_LT(absl::AbsDuration(before - wall), absl::Minutes(1));
  absl::SleepFor(absl::Milliseconds(20));
  EXPECT_GE(SteadyNow() - before, absl::Milliseconds(20));
}

TEST(SteadyCondVarTest, WaitsUntilItsDeadlineOrTheCondition) {
  absl::Mutex mutex;
  SteadyCondVar changed;
  bool ready = false;
  const auto is_ready = [&] { return ready; };
  absl::MutexLock lock(&mutex);
  const absl::Time start = SteadyNow();
  EXPECT_FALSE(
      changed.WaitUntil(&mutex, start + absl::Milliseconds(30), is_ready));
  EXPECT_GE(SteadyNow() - start, absl::Milliseconds(30));
  EXPECT_FALSE(changed.WaitUntil(&mutex, start, is_ready));
  EXPECT_FALSE(changed.WaitUntil(&mutex, absl::InfinitePast(), is_ready));

  std::thread other([&] {
    absl::MutexLock own(&mutex);
    ready = true;
    changed.SignalAll();
  });
  EXPECT_TRUE(changed.WaitUntil(&mutex, absl::InfiniteFuture(), is_ready));
  // The other thread can end only if the wait released the mutex.
  mutex.Unlock();
  other.join();
  mutex.Lock();
}

}  // namespace
}  // namespace quantd
