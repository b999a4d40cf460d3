#include "server/planner.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/synchronization/notification.h"

namespace quantd {
namespace {

TEST(PlannerTest, LongWorkWaitsUntilNoOtherDoes) {
  std::string order;  // of the planner's thread, read when that has ended
  absl::Notification begun, go;
  {
    Planner planner;
    planner.Submit(
        [&] {
          begun.Notify();
          go.WaitForNotification();
        },
        true);
    begun.WaitForNotification();
    planner.Submit([&] { order += 'L'; }, true);
    planner.Submit([&] { order += 'l'; }, true);
    planner.Submit([&] { order += 'S'; }, false);
    planner.Submit([&] { order += 's'; }, false);
    go.Notify();
  }
  EXPECT_EQ(order, "SsLl");
}

}  // namespace
}  // namespace quantd
