#include "quantd/delayed_scaling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace quantd {
namespace {

using testing::ElementsAre;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kMost = std::numeric_limits<float>::max();

uint32_t ScaleBits(std::vector<float> history, int margin, float element_max,
                   HistoryRule rule = HistoryRule::kMax) {
  return std::bit_cast<uint32_t>(
      UpdateScale(history, rule, margin, element_max, /*previous=*/7).scale);
}

TEST(DelayedScalingTest, HistoryRolls) {
  const std::vector<float> history = {5, 0.5f, 9, 2};
  const ScaleUpdate most = UpdateScale(history, HistoryRule::kMax, 0, 448, 1);
  EXPECT_THAT(most.history, ElementsAre(0, 9, 2, 5));
  EXPECT_EQ(most.scale, 448.0f / 9);
  const ScaleUpdate recent =
      UpdateScale(history, HistoryRule::kMostRecent, 0, 448, 1);
  EXPECT_THAT(recent.history, ElementsAre(0, 9, 2, 5));
  EXPECT_EQ(recent.scale, 448.0f / 5);
  EXPECT_THAT(UpdateScale({{3, 4}}, HistoryRule::kMax, 0, 448, 1).history,
              ElementsAre(0, 3));
  EXPECT_THAT(UpdateScale({{3}}, HistoryRule::kMax, 0, 448, 1).history,
              ElementsAre(0));
}

TEST(DelayedScalingTest, NanIsDroppedAndInfKeepsTheScale) {
  EXPECT_EQ(ScaleBits({kNan, 4, 2}, 0, 448), std::bit_cast<uint32_t>(112.0f));
  EXPECT_EQ(ScaleBits({4, kNan, 2}, 0, 448), std::bit_cast<uint32_t>(112.0f));
  EXPECT_EQ(ScaleBits({kNan, kNan}, 0, 448), std::bit_cast<uint32_t>(7.0f));
  EXPECT_EQ(ScaleBits({1, kInfinity}, 0, 448), std::bit_cast<uint32_t>(7.0f));
  EXPECT_EQ(ScaleBits({kNan, 4}, 0, 448, HistoryRule::kMostRecent),
            std::bit_cast<uint32_t>(7.0f));
}

TEST(DelayedScalingTest, SmallestAndLargestMargins) {
  // 448 * 2^-127 is exact.
  EXPECT_EQ(UpdateScale({{1}}, HistoryRule::kMax, 127, 448, 7).scale,
            std::ldexp(448.0f, -127));
  // 448 * 2^127 is beyond fp32, so the scale is FLT_MAX.
  EXPECT_EQ(UpdateScale({{1}}, HistoryRule::kMax, -127, 448, 7).scale, kMost);
}

TEST(DelayedScalingTest, EveryGroupHasItsOwnHistory) {
  const std::vector<float> history = {99, 1, 2, 99, 8, 4};
  const GroupUpdates u =
      UpdateScales(history, std::vector<float>{4, 0.5f}, HistoryRule::kMax, 0,
                   448, std::vector<float>{3, 5});
  EXPECT_THAT(u.history, ElementsAre(0, 2, 4, 0, 4, 0.5f));
  EXPECT_THAT(u.scales, ElementsAre(112, 56));
  // A group whose amax is 0 keeps its scale.
  const GroupUpdates none =
      UpdateScales(history, std::vector<float>{0, 2}, HistoryRule::kMostRecent,
                   0, 448, std::vector<float>{3, 5});
  EXPECT_THAT(none.scales, ElementsAre(3, 224));
}

}  // namespace
}  // namespace quantd
