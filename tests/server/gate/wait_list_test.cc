#include "server/gate/wait_list.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

namespace quantd {
namespace {

const absl::Time kStart = absl::UnixEpoch();

// A list of named waiters for an account with `room` free bytes.
class WaitListTest : public testing::Test {
 protected:
  struct Named : WaitList::Waiting {
    std::string name;
    WaitList::Lanes needs = 1;
  };

  std::unique_ptr<Named> Make(std::string name, size_t bytes,
                              std::string identity,
                              Priority priority = Priority::kNormal) {
    auto waiting = std::make_unique<Named>();
    waiting->name = std::move(name);
    waiting->bytes = bytes;
    waiting->identity = std::move(identity);
    waiting->priority = priority;
    waiting->since = now_;
    return waiting;
  }
  void Add(std::string name, size_t bytes, std::string identity,
           Priority priority = Priority::kNormal) {
    queue_.Push(Make(std::move(name), bytes, std::move(identity), priority));
    now_ += absl::Microseconds(1);
  }
  static std::string Names(const WaitList::List& list) {
    std::string names;
    for (const auto& w : list) names += static_cast<Named&>(*w).name + " ";
    return names;
  }
  std::string Displaced(std::unique_ptr<Named> newcomer, size_t most,
                        size_t most_bytes) {
    const auto leave = queue_.MakeRoom(*newcomer, most, most_bytes, now_);
    return leave ? Names(*leave) : "newcomer";
  }
  std::string Serve() {
    return Names(queue_.Serve(
        now_, [&](const std::string& identity) { return held_[identity]; },
        [&](WaitList::Waiting& w, WaitList::Lanes kept) -> WaitList::Lanes {
          const WaitList::Lanes needs = static_cast<Named&>(w).needs;
          if ((kept & needs) != 0 || w.bytes > room_) return needs;
          room_ -= w.bytes;
          if (!w.identity.empty()) held_[w.identity] += w.bytes;
          return 0;
        }));
  }

  absl::Time now_ = kStart;
  WaitList queue_;
  size_t room_ = 0;
  std::map<std::string, size_t> held_;
};

TEST_F(WaitListTest, ServesByPriorityThenShareThenArrival) {
  held_ = {{"rich", 100}, {"poor", 10}};
  Add("low", 1, "none", Priority::kLow);
  Add("rich", 1, "rich");
  Add("poor", 1, "poor");
  Add("first", 1, "none");
  Add("second", 1, "new");
  Add("high", 1, "rich", Priority::kHigh);
  room_ = 10;
  EXPECT_EQ(Serve(), "high first second poor rich low ");
  EXPECT_TRUE(queue_.empty());
}

TEST_F(WaitListTest, ServedBytesCountTowardsTheShareAtOnce) {
  for (const char* name : {"a1", "a2", "a3"}) Add(name, 10, "a");
  for (const char* name : {"b1", "b2"}) Add(name, 10, "b");
  room_ = 50;
  EXPECT_EQ(Serve(), "a1 b1 a2 b2 a3 ");
}

TEST_F(WaitListTest, WaitersWithoutAnIdentityHaveOneShareEach) {
  for (const char* name : {"x", "y"}) Add(name, 10, "");
  Add("a", 10, "a");
  room_ = 30;
  EXPECT_EQ(Serve(), "x y a ");
}

TEST_F(WaitListTest, YieldsForOneSecondOrFourAtLowPriority) {
  held_ = {{"rich", 100}};
  Add("rich", 1, "rich");
  Add("low", 1, "a", Priority::kLow);
  EXPECT_EQ(queue_.NextChange(now_), kStart + absl::Seconds(1));
  now_ += absl::Seconds(2);
  EXPECT_EQ(queue_.NextChange(now_),
            kStart + absl::Microseconds(1) + absl::Seconds(4));
  Add("poor", 1, "b", Priority::kHigh);
  room_ = 1;
  EXPECT_EQ(Serve(), "rich ");
  now_ += absl::Seconds(3);
  Add("later", 1, "b", Priority::kHigh);
  room_ = 2;
  EXPECT_EQ(Serve(), "low poor ");
}

TEST_F(WaitListTest, WakesAtTheEndOfAWait) {
  auto waiting = Make("a", 1, "a");
  waiting->until = now_ + absl::Milliseconds(5);
  queue_.Push(std::move(waiting));
  EXPECT_EQ(queue_.NextChange(now_), kStart + absl::Milliseconds(5));
  EXPECT_EQ(queue_.oldest(), kStart);
  EXPECT_EQ(Names(queue_.RemoveIf([&](const WaitList::Waiting& w) {
              return w.until <= now_ + absl::Milliseconds(5);
            })),
            "a ");
  EXPECT_EQ(queue_.oldest(), absl::InfiniteFuture());
  EXPECT_EQ(queue_.NextChange(now_), absl::InfiniteFuture());
}

TEST_F(WaitListTest, SmallWaitersMayPassALargeOneUpToAQuarter) {
  Add("large", 400, "a");
  for (int i = 0; i < 6; ++i) Add(std::to_string(i), 30, "b");
  room_ = 300;
  EXPECT_EQ(Serve(), "0 1 2 ");  // a fourth would raise the sum to 120
  room_ = 399;
  EXPECT_EQ(Serve(), "");
  room_ = 400;
  EXPECT_EQ(Serve(), "large ");
  room_ = 90;
  EXPECT_EQ(Serve(), "3 4 5 ");
}

TEST_F(WaitListTest, WaiterOfMoreThanAQuarterDoesNotPass) {
  Add("larger", 4000, "a");
  Add("large", 1001, "b");
  room_ = 3999;
  EXPECT_EQ(Serve(), "");
  Add("small", 1000, "c");
  EXPECT_EQ(Serve(), "small ");
}

TEST_F(WaitListTest, WaiterReservesOnlyItsNeed) {
  auto first = Make("first", 100, "a");
  first->needs = 2;
  queue_.Push(std::move(first));
  Add("same", 60, "b");
  auto other = Make("other", 60, "c");
  other->needs = 4;
  queue_.Push(std::move(other));
  auto behind = Make("behind", 60, "d");
  behind->needs = 2;
  queue_.Push(std::move(behind));
  room_ = 99;
  EXPECT_EQ(Serve(), "same ");
  room_ = 99;
  EXPECT_EQ(Serve(), "other ");
  EXPECT_EQ(queue_.size(), 2u);
}

TEST_F(WaitListTest, RefusesNewWaitersOfTheLargestShare) {
  for (const char* name : {"a1", "a2", "a3"}) Add(name, 10, "a");
  EXPECT_EQ(Displaced(Make("a4", 10, "a"), 3, 1000), "newcomer");
  EXPECT_EQ(Displaced(Make("a4", 10, "a"), 9, 39), "newcomer");
  EXPECT_EQ(Displaced(Make("a4", 10, "a"), 4, 40), "");
  // A waiter of another share displaces the latest waiter of the largest share.
  EXPECT_EQ(Displaced(Make("b1", 10, "b"), 3, 1000), "a3 ");
  Add("b1", 10, "b");
  EXPECT_EQ(Displaced(Make("c1", 5, "c"), 9, 15), "a2 b1 ");
}

TEST_F(WaitListTest, NewWaiterThatIsTooLargeDisplacesNone) {
  for (const char* name : {"a", "b", "c"}) Add(name, 10, name);
  EXPECT_EQ(Displaced(Make("d", 25, "d"), 9, 50), "newcomer");
  EXPECT_EQ(queue_.size(), 3u);
}

TEST_F(WaitListTest, OneWaiterIsAlwaysAllowed) {
  EXPECT_EQ(Displaced(Make("a", 1000, "a"), 0, 10), "");
}

TEST_F(WaitListTest, HighPriorityDisplacesLow) {
  Add("low", 10, "a", Priority::kLow);
  Add("normal", 10, "b");
  EXPECT_EQ(Displaced(Make("high", 10, "b", Priority::kHigh), 2, 100), "low ");
  // After a long wait a waiter of low priority is not displaced.
  Add("low", 10, "a", Priority::kLow);
  now_ += absl::Seconds(5);
  EXPECT_EQ(Displaced(Make("high", 10, "b", Priority::kHigh), 2, 100),
            "newcomer");
}

TEST_F(WaitListTest, ThousandWaitersOfOneIdentityDelayNoOther) {
  for (int i = 0; i < 1000; ++i) Add("crowd", 10, "crowd");
  Add("other", 10, "other");
  for (const char* name : {"x", "y"}) Add(name, 10, "");
  room_ = 40;
  EXPECT_EQ(Serve(), "crowd other x y ");
  // Each identity has one share of equal size, however many of its calls wait.
  for (int i = 0; i < 5; ++i) Add("other", 10, "other");
  room_ = 100;
  EXPECT_EQ(Serve(),
            "crowd other crowd other crowd other crowd other crowd other ");
}

TEST_F(WaitListTest, LowPriorityIsServedDespiteAFloodOfHigh) {
  Add("low", 300 << 10, "a", Priority::kLow);
  std::string served;
  // In each millisecond one call of high priority arrives, and one call is
  // served.
  for (int ms = 0; ms < 5000 && served.find("low") == served.npos; ++ms) {
    Add("high", 1 << 20, "b", Priority::kHigh);
    now_ += absl::Milliseconds(1);
    room_ = 1 << 20;
    held_.clear();
    served = Serve();
  }
  EXPECT_EQ(served, "low ");
  EXPECT_GE(now_ - kStart, absl::Seconds(4));
}

}  // namespace
}  // namespace quantd
