#include "server/gate/budget.h"

#include <gtest/gtest.h>

namespace quantd {
namespace {

TEST(BudgetTest, CountsAccountsSeparately) {
  Budget budget({100, 50});
  EXPECT_TRUE(budget.Fits(0, 100));
  EXPECT_FALSE(budget.Fits(0, 101));
  budget.Take(0, "a", 60);
  EXPECT_TRUE(budget.Fits(0, 40));
  EXPECT_FALSE(budget.Fits(0, 41));
  EXPECT_TRUE(budget.Fits(1, 50));
  EXPECT_EQ(budget.Room(0), 40u);
  budget.Give(0, "a", 60);
  EXPECT_EQ(budget.used(0), 0u);
}

TEST(BudgetTest, AllowsOvercommitAndThenHasNoRoom) {
  Budget budget({100});
  budget.Take(0, "a", 130);
  EXPECT_EQ(budget.Room(0), 0u);
  EXPECT_FALSE(budget.Fits(0, 1));
  EXPECT_FALSE(budget.Fits(0, 0));
  budget.Give(0, "a", 40);
  EXPECT_EQ(budget.Room(0), 10u);
}

TEST(BudgetTest, TracksWhatAnIdentityHoldsInAllAccounts) {
  Budget budget({100, 100});
  budget.Take(0, "a", 10);
  budget.Take(1, "a", 20);
  budget.Take(1, "b", 5);
  budget.Take(1, "", 7);  // without an identity
  EXPECT_EQ(budget.held_by("a"), 30u);
  EXPECT_EQ(budget.held_by("b"), 5u);
  EXPECT_EQ(budget.held_by("a", 1), 20u);
  EXPECT_EQ(budget.held_by("c", 1), 0u);
  EXPECT_EQ(budget.held_by(""), 0u);
  EXPECT_EQ(budget.holders(), 2u);
  budget.Give(0, "a", 10);
  budget.Give(1, "a", 20);
  budget.Give(1, "", 7);
  EXPECT_EQ(budget.held_by("a"), 0u);
  // It is forgotten once it has held nothing for a whole round.
  for (const size_t holders : {2, 1, 1}) {
    budget.ForgetIdle();
    EXPECT_EQ(budget.holders(), holders);
  }
  EXPECT_EQ(budget.used(1), 5u);
}

}  // namespace
}  // namespace quantd
