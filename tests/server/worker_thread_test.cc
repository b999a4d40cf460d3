#include "server/calls/worker_thread.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <functional>
#include <string>

#include "absl/synchronization/notification.h"

namespace quantd {
namespace {

TEST(WorkerThreadTest, RunsAllWorkInOrderAndYieldsToOthers) {
  std::string order;  // written by the thread, read after it has ended
  int priority = 0;
  absl::Notification go;
  {
    WorkerThread thread(WorkerThread::kNice);
    thread.Submit([&] {
      go.WaitForNotification();
      priority = getpriority(PRIO_PROCESS, 0);
    });
    thread.Submit([&] { order += 'a'; });
    thread.Submit([&] { order += 'b'; });
    go.Notify();
  }
  EXPECT_EQ(order, "ab");
  EXPECT_GT(priority, getpriority(PRIO_PROCESS, 0));
}

// No poller waits for another one, and each ends once.
TEST(WorkerThreadTest, PollsUntilEachEventHasPassed) {
  struct Poller {
    std::atomic<bool> passed = false;
    std::atomic<int> looks = 0;
    absl::Notification done;
  };
  std::array<Poller, 50> pollers;
  WorkerThread thread;
  std::function<void(Poller*)> poll = [&](Poller* poller) {
    ++poller->looks;
    if (poller->passed) return poller->done.Notify();
    thread.SubmitLater([&poll, poller] { poll(poller); });
  };
  for (Poller& poller : pollers) {
    thread.Submit([&poll, &poller] { poll(&poller); });
  }
  for (size_t i = pollers.size(); i-- > 0;) {
    // Those that wait are still polled, beside other work.
    absl::Notification worked;
    thread.Submit([&] { worked.Notify(); });
    worked.WaitForNotification();
    const int looks = pollers[i].looks;
    while (pollers[i].looks < looks + 2) std::this_thread::yield();
    pollers[i].passed = true;
    pollers[i].done.WaitForNotification();
  }
}

}  // namespace
}  // namespace quantd
