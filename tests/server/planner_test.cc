#include "server/planner.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/synchronization/notification.h"

namespace quantd {
namespace {

TEST(PlannerTest, NobodyWaitsForLongWorkOfOthers) {
  std::string order;  // of the thread for long work, read when that has ended
  absl::Notification go, short_done;
  {
    Planner planner;
    planner.Submit([&] { go.WaitForNotification(); }, true);
    planner.Submit([&] { order += 'a'; }, true);
    planner.Submit([&] { order += 'b'; }, true);
    planner.Submit([&] { short_done.Notify(); }, false);
    EXPECT_TRUE(short_done.WaitForNotificationWithTimeout(absl::Minutes(1)));
    go.Notify();
  }
  EXPECT_EQ(order, "ab");
}

}  // namespace
}  // namespace quantd
