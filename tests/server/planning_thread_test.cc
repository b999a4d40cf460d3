#include "server/calls/planning_thread.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>

#include "absl/synchronization/notification.h"

namespace quantd {
namespace {

TEST(PlanningThreadTest, RunsAllWorkInOrderAndYieldsToOthers) {
  std::string order;  // written by the thread, read after it has ended
  int priority = 0;
  absl::Notification go;
  {
    PlanningThread thread;
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

}  // namespace
}  // namespace quantd
