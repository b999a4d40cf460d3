#include <gtest/gtest.h>

#include "server/net/call_queue.h"

namespace quantd {
namespace {

using std::chrono::milliseconds;

class LoneCallerTest : public testing::Test {
 protected:
  // Ends a job and begins the next call, which was already waiting if
  // `at_hand`.
  void JobAndCall(bool at_hand) {
    lone_.JobEnds();
    ASSERT_TRUE(lone_.looks());
    if (!at_hand) lone_.NothingHasCome();
    lone_.CallArrives(now_ += milliseconds(1));
  }

  LoneCaller lone_;
  LoneCaller::Time now_ = std::chrono::steady_clock::now();
};

TEST_F(LoneCallerTest, CallerIsAloneIfItsCallsFollowItsReplies) {
  EXPECT_TRUE(lone_.IsLikely(now_));
  EXPECT_FALSE(lone_.looks());
  for (int i = 0; i < 10; ++i) {
    JobAndCall(false);
    EXPECT_TRUE(lone_.IsLikely(now_));
  }
}

TEST_F(LoneCallerTest, OccasionalWaitingCallsAreNotACrowd) {
  for (int i = 0; i < 30; ++i) {
    JobAndCall(i % 3 != 0);
    EXPECT_TRUE(lone_.IsLikely(now_));
  }
}

TEST_F(LoneCallerTest, RepeatedlyWaitingCallsAreACrowdForAWhile) {
  for (int i = 0; i < 3; ++i) JobAndCall(true);
  EXPECT_FALSE(lone_.IsLikely(now_));
  EXPECT_FALSE(lone_.IsLikely(now_ + milliseconds(99)));
  EXPECT_TRUE(lone_.IsLikely(now_ + milliseconds(101)));
}

}  // namespace
}  // namespace quantd
