// Tests of patterns that select tensors by name.
#include "client/checkpoint/pattern.h"

#include "tests/testing/matchers.h"

namespace quantd::checkpoint {
namespace {

TEST(PatternTest, NamesAndGlobsMatchAsAWhole) {
  const auto exact = Pattern::Parse("lm_head");
  ASSERT_THAT(exact, IsOk());
  EXPECT_TRUE(exact->Matches("lm_head"));
  EXPECT_FALSE(exact->Matches("model.lm_head"));
  EXPECT_FALSE(exact->Matches("lm_head2"));
  const auto glob = Pattern::Parse("model.layers.?.*.down_proj");
  ASSERT_THAT(glob, IsOk());
  EXPECT_TRUE(glob->Matches("model.layers.1.mlp.down_proj"));
  EXPECT_FALSE(glob->Matches("model.layers.11.mlp.down_proj"));
  EXPECT_FALSE(glob->Matches("model_layers.1.mlp.down_proj"));
  const auto tensor = Pattern::Parse("lm_head.weight");
  ASSERT_THAT(tensor, IsOk());
  EXPECT_TRUE(tensor->Matches("lm_head"));
}

TEST(PatternTest, ExpressionsMatchFromTheStartAsInPython) {
  const auto p = Pattern::Parse("re:.*down_proj");
  ASSERT_THAT(p, IsOk());
  EXPECT_TRUE(p->Matches("model.layers.1.mlp.down_proj"));
  EXPECT_TRUE(p->Matches("model.layers.1.mlp.down_proj_2"));
  const auto bare = Pattern::Parse("re:down_proj");
  ASSERT_THAT(bare, IsOk());
  EXPECT_FALSE(bare->Matches("model.layers.1.mlp.down_proj"));
}

TEST(PatternTest, RefusesInvalidPatterns) {
  for (const char* text : {"", "re:", "re:(", "re:(?!x)y", "re:a**"}) {
    EXPECT_THAT(Pattern::Parse(text),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << text;
  }
}

TEST(PatternTest, MatchesHostileExpressionsInLinearTime) {
  const auto p = Pattern::Parse("re:(a*)*(a*)*(a*)*b");
  ASSERT_THAT(p, IsOk());
  EXPECT_FALSE(p->Matches(std::string(100'000, 'a')));
}

}  // namespace
}  // namespace quantd::checkpoint
