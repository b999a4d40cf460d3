// Tests of patterns that select tensors by name.
#include "client/checkpoint/pattern.h"

#include "tests/testing/matchers.h"

namespace quantd::checkpoint {
namespace {

TEST(PatternTest, NamesAndGlobsMatchAsAWhole) {
  ASSERT_OK_AND_ASSIGN(const auto exact, Pattern::Parse("lm_head"));
  EXPECT_TRUE(exact.Matches("lm_head"));
  EXPECT_FALSE(exact.Matches("model.lm_head"));
  EXPECT_FALSE(exact.Matches("lm_head2"));
  ASSERT_OK_AND_ASSIGN(const auto glob,
                       Pattern::Parse("model.layers.?.*.down_proj"));
  EXPECT_TRUE(glob.Matches("model.layers.1.mlp.down_proj"));
  EXPECT_FALSE(glob.Matches("model.layers.11.mlp.down_proj"));
  EXPECT_FALSE(glob.Matches("model_layers.1.mlp.down_proj"));
  ASSERT_OK_AND_ASSIGN(const auto tensor, Pattern::Parse("lm_head.weight"));
  EXPECT_TRUE(tensor.Matches("lm_head"));
}

TEST(PatternTest, ExpressionsMatchFromTheStartAsInPython) {
  ASSERT_OK_AND_ASSIGN(const auto p, Pattern::Parse("re:.*down_proj"));
  EXPECT_TRUE(p.Matches("model.layers.1.mlp.down_proj"));
  EXPECT_TRUE(p.Matches("model.layers.1.mlp.down_proj_2"));
  ASSERT_OK_AND_ASSIGN(const auto bare, Pattern::Parse("re:down_proj"));
  EXPECT_FALSE(bare.Matches("model.layers.1.mlp.down_proj"));
}

TEST(PatternTest, RefusesInvalidPatterns) {
  for (const char* text : {"", "re:", "re:(", "re:(?!x)y", "re:a**"}) {
    EXPECT_THAT(Pattern::Parse(text),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << text;
  }
}

TEST(PatternTest, MatchesHostileExpressionsInLinearTime) {
  ASSERT_OK_AND_ASSIGN(const auto p, Pattern::Parse("re:(a*)*(a*)*(a*)*b"));
  EXPECT_FALSE(p.Matches(std::string(100'000, 'a')));
}

}  // namespace
}  // namespace quantd::checkpoint
