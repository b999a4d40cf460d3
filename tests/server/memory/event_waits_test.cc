// Tests that waiters for events end as soon as possible, once, and without
// delaying each other.
#include "server/memory/event_waits.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace quantd {
namespace {

class Waiter : public EventWaits::Waiter {
 public:
  bool WaitIsOver() override {
    ++looks;
    return over;
  }
  void OnWaitOver() override {
    EXPECT_TRUE(over);
    ++told;
    done.Notify();
  }
  std::atomic<bool> over = false;
  std::atomic<int> looks = 0;
  std::atomic<int> told = 0;
  absl::Notification done;
};

TEST(EventWaits, WaiterEndsWhenItsEventHasPassed) {
  EventWaits waits;
  std::vector<std::unique_ptr<Waiter>> waiters;
  for (int i = 0; i < 50; ++i) {
    waiters.push_back(std::make_unique<Waiter>());
    waits.Add(waiters.back().get());
  }
  for (int i = 49; i >= 0; i -= 2) {
    waiters[i]->over = true;
    waiters[i]->done.WaitForNotification();
  }
  // The other waiters are still polled and have not ended.
  for (int i = 48; i >= 0; i -= 2) {
    const int looks = waiters[i]->looks;
    while (waiters[i]->looks < looks + 3) absl::SleepFor(absl::Milliseconds(1));
    EXPECT_EQ(waiters[i]->told, 0);
    waiters[i]->over = true;
    waiters[i]->done.WaitForNotification();
  }
  for (const auto& waiter : waiters) {
    const int looks = waiter->looks;
    EXPECT_EQ(waiter->told, 1);
    EXPECT_EQ(waiter->looks, looks);
  }
}

TEST(EventWaits, WaitersOfManyThreadsEnd) {
  EventWaits waits;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) {
        Waiter waiter;
        waits.Add(&waiter);
        if (i % 2 == 0) absl::SleepFor(absl::Microseconds(50));
        waiter.over = true;
        waiter.done.WaitForNotification();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace quantd
