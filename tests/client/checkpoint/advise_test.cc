// Tests of the choice of formats when the error and size of each are known.
#include "client/checkpoint/advise/advise.h"

#include <cmath>

#include "tests/testing/matchers.h"

namespace quantd::checkpoint {
namespace {

using testing::HasSubstr;

TEST(Target, ParsesDecibelsAndBytes) {
  EXPECT_EQ(std::get<LeastDb>(*ParseTarget("25dB")).db, 25);
  EXPECT_EQ(std::get<LeastDb>(*ParseTarget("20.5 dB")).db, 20.5);
  EXPECT_EQ(std::get<MostBytes>(*ParseTarget("4.5GiB")).bytes,
            uint64_t{9} << 29);
  // Sizes take the same units as quantd's settings.
  for (const char* text : {"800MB", "800 MiB", "800m", "0.78125G"}) {
    EXPECT_EQ(std::get<MostBytes>(*ParseTarget(text)).bytes,
              uint64_t{800} << 20)
        << text;
  }
  for (const char* text :
       {"", "dB", "25", "-3dB", "nan dB", "inf B", "1e40GB", "4 parsecs"}) {
    EXPECT_EQ(ParseTarget(text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
}

// Returns a group with 9 * unit bytes as nvfp4, 16 * unit as mxfp8 and 32 *
// unit as bf16. `four` and `eight` are the SQNRs of nvfp4 and mxfp8 in dB.
AdvisedGroup Group(const std::string& name, uint64_t unit, double four,
                   double eight) {
  return {{name},
          {{WeightFormat::kNvfp4, 9 * unit, four},
           {WeightFormat::kMxfp8, 16 * unit, eight},
           {WeightFormat::kBf16, 32 * unit, INFINITY}},
          0};
}
std::string Chosen(const std::vector<AdvisedGroup>& groups) {
  std::string text;
  for (const AdvisedGroup& g : groups) {
    text += fmt::format("{} ", Name(g.candidates[g.chosen].format));
  }
  return text;
}

TEST(Choose, PicksTheSmallestFormatThatReachesTheSqnr) {
  std::vector<AdvisedGroup> groups = {Group("a", 1, 20, 31),
                                      Group("b", 1, 18, 29)};
  ASSERT_THAT(Choose(LeastDb{19}, 0, &groups), IsOk());
  EXPECT_EQ(Chosen(groups), "nvfp4 mxfp8 ");
  ASSERT_THAT(Choose(LeastDb{30}, 0, &groups), IsOk());
  EXPECT_EQ(Chosen(groups), "mxfp8 bf16 ");
  ASSERT_THAT(Choose(LeastDb{10}, 0, &groups), IsOk());
  EXPECT_EQ(Chosen(groups), "nvfp4 nvfp4 ");
}

TEST(Choose, WeighsErrorsBySize) {
  // 8 bits for the large weight cost 70 more bytes, bf16 for the small one 69.
  // Eight bits remove more error, bf16 more decibels per byte.
  std::vector<AdvisedGroup> groups = {Group("large", 10, 20, 31),
                                      Group("small", 3, 20, 31)};
  ASSERT_THAT(Choose(MostBytes{117 + 70}, 0, &groups), IsOk());
  EXPECT_EQ(Chosen(groups), "mxfp8 nvfp4 ");
}

TEST(Choose, SpendsBytesWhereTheErrorShrinksMost) {
  // b has more error per byte than a.
  std::vector<AdvisedGroup> groups = {Group("a", 1, 20, 31),
                                      Group("b", 1, 10, 31)};
  EXPECT_THAT(Choose(MostBytes{17}, 0, &groups),
              Refused(HasSubstr("the smallest possible model has 18")));
  ASSERT_THAT(Choose(MostBytes{18}, 0, &groups), IsOk());
  EXPECT_EQ(Chosen(groups), "nvfp4 nvfp4 ");
  ASSERT_THAT(Choose(MostBytes{25}, 0, &groups), IsOk());
  EXPECT_EQ(Chosen(groups), "nvfp4 mxfp8 ");
  ASSERT_THAT(Choose(MostBytes{32}, 0, &groups), IsOk());
  EXPECT_EQ(Chosen(groups), "mxfp8 mxfp8 ");
  // The bytes of other tensors, the second argument, count toward the limit.
  ASSERT_THAT(Choose(MostBytes{32}, 7, &groups), IsOk());
  EXPECT_EQ(Chosen(groups), "nvfp4 mxfp8 ");
  ASSERT_THAT(Choose(MostBytes{1000}, 0, &groups), IsOk());
  EXPECT_EQ(Chosen(groups), "bf16 bf16 ");
  // The better of two formats of the same size is chosen. If the upgrade of a
  // large group does not fit, a small group gets one.
  groups = {Group("large", 100, 20, 40), Group("small", 1, 20, 21)};
  groups[0].candidates.insert(groups[0].candidates.begin() + 1,
                              {WeightFormat::kNvfp4FourOverSix, 900, 20.5});
  ASSERT_THAT(Choose(MostBytes{920}, 0, &groups), IsOk());
  EXPECT_EQ(Chosen(groups), "nvfp4_4over6 mxfp8 ");
}

}  // namespace
}  // namespace quantd::checkpoint
