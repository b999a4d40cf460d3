#include "server/calls/planning_threads.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/synchronization/notification.h"

namespace quantd {
namespace {

TEST(PlanningThreadsTest, NobodyWaitsForLongWorkOfOthers) {
  std::string order;  // of the thread for long work, read when that has ended
  absl::Notification go, short_done;
  {
    PlanningThreads threads;
    threads.Submit([&] { go.WaitForNotification(); }, true);
    threads.Submit([&] { order += 'a'; }, true);
    threads.Submit([&] { order += 'b'; }, true);
    threads.Submit([&] { short_done.Notify(); }, false);
    EXPECT_TRUE(short_done.WaitForNotificationWithTimeout(absl::Minutes(1)));
    go.Notify();
  }
  EXPECT_EQ(order, "ab");
}

}  // namespace
}  // namespace quantd
