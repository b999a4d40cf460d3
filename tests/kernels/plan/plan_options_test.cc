// The options that are legal for each format, alone and in combination.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/plan/support.h"
#include "tests/kernels/plan/plan_request.h"

namespace quantd {
namespace {

using Edit = std::function<void(QuantizeOptions&)>;

// An option used in the simplest way, and the formats that have it. This list
// is written from the rules, not from the table under test.
struct Use {
  std::string_view name;
  std::string_view field;
  std::vector<std::string_view> formats;
  Edit edit;
};

const std::vector<Use>& Uses() {
  static const std::vector<std::string_view> nvfp4 = {"nvfp4", "nvfp4_2d"};
  static const std::vector<std::string_view> tensor = {"fp8_e4m3", "fp8_e5m2"};
  static const std::vector<std::string_view> mx = {"mxfp8_e4m3", "mxfp8_e5m2",
                                                   "mxfp4"};
  static const std::vector<std::string_view> block = {
      "fp8_block_e4m3", "fp8_block_e5m2", "fp8_block_2d_e4m3",
      "fp8_block_2d_e5m2"};
  static const auto join =
      [](std::initializer_list<std::vector<std::string_view>> lists) {
        std::vector<std::string_view> all;
        for (const auto& list : lists) {
          all.insert(all.end(), list.begin(), list.end());
        }
        return all;
      };
  static const std::vector<std::string_view> channel = {"fp8_channel_e4m3"};
  static const auto all = join({nvfp4, tensor, mx, block, channel});
  using O = QuantizeOptions;
  static const auto& uses = *new std::vector<Use>{
      {"rht", "rht", join({{"nvfp4"}, mx}),
       [](O& o) { o.rht.columnwise = true; }},
      {"stochastic",
       "rounding",
       {"nvfp4", "nvfp4_2d", "mxfp4"},
       [](O& o) { o.rounding = Rounding::kStochastic; }},
      {"row_scaled",
       "form.row_scaled",
       {"nvfp4"},
       [](O& o) { o.form.row_scaled = true; }},
      {"four_over_six", "four_over_six", nvfp4,
       [](O& o) { o.nvfp4.four_over_six = FourOverSix::kMse; }},
      {"swizzled", "form.scale_layout", join({nvfp4, mx}),
       [](O& o) { o.form.scale_layout = Layout::kSwizzled; }},
      {"compact",
       "form.compact_scales",
       {"nvfp4_2d"},
       [](O& o) { o.form.compact_scales = true; }},
      {"given_amax", "given_amax", join({nvfp4, tensor, channel}),
       [](O& o) {
         const bool lines = o.format == Format::kFp8ChannelE4M3;
         o.rowwise_amax.assign(lines ? 32 : 1, 1);
       }},
      {"estimation",
       "amax_estimation_scale",
       {"nvfp4"},
       [](O& o) {
         o.nvfp4.amax_estimation_scale = 2.0f;
         o.rht.columnwise = true;
       }},
      {"epsilon", "epsilon", join({tensor, block, channel}),
       [](O& o) { o.fp8.epsilon = 1e-12f; }},
      {"power_of_two", "power_of_two", join({tensor, block, channel}),
       [](O& o) { o.fp8.power_of_two = false; }},
      {"given_scale", "scale", tensor, [](O& o) { o.fp8.scale = {7}; }},
      {"history", "history", tensor,
       [](O& o) {
         o.fp8.history = HistoryOptions{{0, 1}};
         o.fp8.scale = {7};
       }},
      {"scale_rule", "scale_rule", mx,
       [](O& o) { o.mx.scale_rule = ScaleRule::kFloor; }},
      {"grouped", "splits", all,
       [](O& o) {
         o.splits = {{16, 16}};
       }},
      {"dbias", "dbias", all, [](O& o) { o.dbias = true; }},
      {"statistics", "statistics", all, [](O& o) { o.statistics = true; }},
      {"profile",
       "profile",
       {"nvfp4", "fp8_e4m3", "mxfp8_e4m3", "mxfp4", "fp8_block_2d_e4m3",
        "fp8_channel_e4m3"},
       [](O& o) {
         o.profile = Profile::kModelopt047;
         o.usage = Usage::kRowwise;
       }},
  };
  return uses;
}

TEST(OptionsTest, EveryOptionOfEveryFormat) {
  ASSERT_EQ(Uses().size(), Options().size());
  ASSERT_EQ(std::size(kFormats), 12u);
  for (const FormatSpec& format : kFormats) {
    for (size_t i = 0; i < Uses().size(); ++i) {
      const Use& use = Uses()[i];
      SCOPED_TRACE(fmt::format("{} of {}", use.name, format.name));
      EXPECT_EQ(Options()[i].name, use.name);
      EXPECT_EQ(Options()[i].field, use.field);
      PlanRequest r(format.format);
      use.edit(r.quantize);
      const absl::Status status = Make(kQuantize, r).status();
      const auto& has = use.formats;
      if (std::find(has.begin(), has.end(), format.name) != has.end()) {
        EXPECT_THAT(status, IsOk());
        continue;
      }
      ASSERT_FALSE(status.ok());
      // Estimation and history need another option, which may be refused first.
      if (use.name == "estimation" || use.name == "history") {
        EXPECT_TRUE(GetFieldViolation(status).has_value());
        continue;
      }
      ExpectRefused(
          status, use.field,
          fmt::format("{} only with {}", use.name, fmt::join(has, ", ")),
          fmt::format("{} with {}", use.name, format.name));
    }
  }
}

// Two refusals that EveryOptionOfEveryFormat does not test.
TEST(OptionsTest, EstimationAndHistoryNameTheirFormats) {
  PlanRequest mx(Format::kMxfp4);
  mx.quantize.rht.columnwise = true;
  mx.quantize.nvfp4.amax_estimation_scale = 2.0f;
  ExpectRefused(Make(kQuantize, mx).status(), "amax_estimation_scale",
                "estimation only with nvfp4", "estimation with mxfp4");
  PlanRequest plain;
  plain.quantize.fp8.history = HistoryOptions{{1}};
  ExpectRefused(Make(kQuantize, plain).status(), "history",
                "history only with fp8_e4m3, fp8_e5m2", "history with nvfp4");
}

struct Pair {
  Format format;
  std::string_view a, b;  // names of Uses
  std::string_view field;
};

Edit UseOf(std::string_view name) {
  for (const Use& use : Uses()) {
    if (use.name == name) return use.edit;
  }
  ADD_FAILURE() << name;
  return [](QuantizeOptions&) {};
}

TEST(OptionsTest, OptionsThatExcludeEachOther) {
  const Pair pairs[] = {
      {Format::kNvfp4, "four_over_six", "stochastic", "four_over_six"},
      {Format::kNvfp4Square, "four_over_six", "stochastic", "four_over_six"},
      {Format::kNvfp4, "four_over_six", "rht", "four_over_six"},
      {Format::kNvfp4, "row_scaled", "stochastic", "form.row_scaled"},
      {Format::kNvfp4, "row_scaled", "rht", "form.row_scaled"},
      {Format::kNvfp4Square, "swizzled", "compact", "form.scale_layout"},
      {Format::kFp8E5M2, "given_scale", "given_amax", "scale"},
      {Format::kFp8E4M3, "given_scale", "epsilon", "scale"},
      {Format::kFp8E5M2, "given_scale", "power_of_two", "scale"},
  };
  // The next test has one more pair, and profiles_test.cc those of profiles.
  size_t others = 0;
  for (const Conflict& c : Conflicts()) others += c.a != kOptProfile;
  EXPECT_EQ(others, 9u);
  for (const Pair& p : pairs) {
    SCOPED_TRACE(fmt::format("{} and {}", p.a, p.b));
    PlanRequest r(p.format);
    UseOf(p.a)(r.quantize);
    UseOf(p.b)(r.quantize);
    ExpectRefused(Make(kQuantize, r).status(), p.field,
                  fmt::format("{} or {}, not both", p.a, p.b), "both");
  }
}

TEST(OptionsTest, FourOverSixWithRowScalesIsRowwiseOnly) {
  PlanRequest r;
  r.quantize.nvfp4.four_over_six = FourOverSix::kMae;
  r.quantize.form.row_scaled = true;
  for (const Usage usage : {Usage::kBoth, Usage::kColumnwise}) {
    r.quantize.usage = usage;
    ExpectRefused(
        Make(kQuantize, r).status(), "four_over_six",
        "four_over_six or row_scaled, not both (a rowwise copy alone may "
        "have both)",
        "both");
  }
  r.quantize.usage = Usage::kRowwise;
  EXPECT_THAT(Make(kQuantize, r), IsOk());
}

// All other combinations are legal. These pairs are the most likely to be
// refused by mistake.
TEST(OptionsTest, LegalCombinations) {
  const struct {
    Format format;
    std::vector<std::string_view> names;
  } kCases[] = {
      {Format::kNvfp4, {"rht", "stochastic", "grouped", "dbias", "statistics"}},
      {Format::kNvfp4, {"rht", "given_amax", "swizzled", "grouped"}},
      {Format::kNvfp4, {"rht", "estimation", "stochastic", "swizzled"}},
      {Format::kNvfp4, {"row_scaled", "swizzled", "grouped", "dbias"}},
      {Format::kNvfp4, {"four_over_six", "swizzled", "grouped", "given_amax"}},
      {Format::kNvfp4Square, {"four_over_six", "compact", "grouped"}},
      {Format::kNvfp4Square, {"stochastic", "compact", "given_amax"}},
      {Format::kFp8E5M2, {"epsilon", "power_of_two", "grouped", "given_amax"}},
      {Format::kFp8E4M3, {"history", "dbias", "statistics", "given_scale"}},
      {Format::kFp8E5M2, {"history", "grouped", "dbias"}},
      {Format::kMxfp8E4M3, {"rht", "scale_rule", "swizzled", "grouped"}},
      {Format::kMxfp4, {"rht", "stochastic", "scale_rule", "swizzled"}},
      {Format::kFp8BlockE4M3, {"epsilon", "power_of_two", "grouped", "dbias"}},
      {Format::kFp8SquareE5M2, {"epsilon", "power_of_two", "grouped"}},
      {Format::kFp8ChannelE4M3, {"epsilon", "given_amax", "statistics"}},
  };
  for (const auto& c : kCases) {
    PlanRequest r(c.format);
    for (std::string_view name : c.names) UseOf(name)(r.quantize);
    if (r.quantize.splits && !r.quantize.rowwise_amax.empty()) {
      r.quantize.rowwise_amax = {1, 2};
    }
    if (r.quantize.splits && r.quantize.fp8.history) {
      r.quantize.fp8.scale = {1, 2};
    }
    EXPECT_THAT(Make(kQuantize, r), IsOk())
        << Name(c.format) << fmt::format(" {}", fmt::join(c.names, " "));
  }
}

// An option that is set to its default value counts as used, because the caller
// assumes that the format has it.
TEST(OptionsTest, ExplicitDefaultsCountAsUsed) {
  using O = QuantizeOptions;
  const struct {
    std::string_view name, field;
    Edit edit;
  } kCases[] = {
      {"scale_rule", "scale_rule",
       [](O& o) { o.mx.scale_rule = ScaleRule::kUp; }},
      {"power_of_two", "power_of_two",
       [](O& o) { o.fp8.power_of_two = false; }},
  };
  for (const FormatSpec& format : kFormats) {
    const auto names = OptionsOf(format);
    for (const auto& c : kCases) {
      SCOPED_TRACE(fmt::format("{} of {}", c.name, format.name));
      PlanRequest r(format.format);
      c.edit(r.quantize);
      if (std::find(names.begin(), names.end(), c.name) != names.end()) {
        EXPECT_THAT(Make(kQuantize, r), IsOk());
      } else {
        ExpectRefused(
            Make(kQuantize, r).status(), c.field,
            fmt::format("{} only with {}", c.name,
                        FormatsWith(c.name == "scale_rule" ? kOptScaleRule
                                                           : kOptPowerOfTwo)),
            fmt::format("{} with {}", c.name, format.name));
      }
      // The default is not filled in if no copy is made.
      PlanRequest none(format.format);
      none.quantize.usage = Usage::kNone;
      none.quantize.dbias = true;
      const auto plan = Make(kQuantize, none);
      ASSERT_THAT(plan, IsOk());
      none.quantize = std::get<QuantizeOptions>(plan->options());
      EXPECT_EQ(none.quantize.mx.scale_rule, std::nullopt);
      EXPECT_THAT(Make(kQuantize, none), IsOk());
      c.edit(none.quantize);
      EXPECT_FALSE(Make(kQuantize, none).ok());
    }
  }
}

// effects_test.cc finds options without effect; this test checks their errors.
TEST(OptionsTest, OptionsWithoutEffectAreRefused) {
  using O = QuantizeOptions;
  const struct {
    Format format;
    std::string_view field, expected, got;
    Edit edit;
  } kCases[] = {
      {Format::kNvfp4, "rht", "rowwise or columnwise, the copy to rotate",
       "a sign mask alone", [](O& o) { o.rht.sign_mask = SignMask{}; }},
      {Format::kMxfp4, "rht", "rowwise or columnwise, the copy to rotate",
       "a dimension alone", [](O& o) { o.rht.dimension = 32; }},
      {Format::kNvfp4, "rht.columnwise", "a columnwise copy to rotate",
       "usage rowwise",
       [](O& o) {
         o.usage = Usage::kRowwise;
         o.rht.columnwise = true;
       }},
      {Format::kMxfp8E4M3, "rht.rowwise", "a rowwise copy to rotate",
       "usage none",
       [](O& o) {
         o.usage = Usage::kNone;
         o.want_amax = o.rht.rowwise = true;
       }},
      {Format::kFp8E4M3, "rht",
       "rht only with nvfp4, mxfp8_e4m3, mxfp8_e5m2, mxfp4",
       "rht with fp8_e4m3",
       [](O& o) {
         o.usage = Usage::kRowwise;
         o.rht.columnwise = true;
       }},
      {Format::kNvfp4, "statistics", "statistics only if a copy is made",
       "usage none",
       [](O& o) {
         o.usage = Usage::kNone;
         o.dbias = o.statistics = true;
       }},
      {Format::kNvfp4, "given_amax.columnwise",
       "the amax of a copy that is made", "usage rowwise",
       [](O& o) {
         o.usage = Usage::kRowwise;
         o.rowwise_amax = o.columnwise_amax = {1};
       }},
      {Format::kNvfp4, "given_amax.rowwise", "the amax of a copy that is made",
       "usage columnwise",
       [](O& o) {
         o.usage = Usage::kColumnwise;
         o.rht.columnwise = true;
         o.rowwise_amax = {1};
       }},
      {Format::kNvfp4, "amax_estimation_scale",
       "a rotated copy whose amax is not given",
       "given_amax for every rotated copy",
       [](O& o) {
         o.rht.columnwise = true;
         o.columnwise_amax = {1};
         o.nvfp4.amax_estimation_scale = 2.0f;
       }},
      {Format::kNvfp4, "stochastic", "a seed only with stochastic rounding",
       "rounding nearest", [](O& o) { o.stochastic.seed = 1; }},
      {Format::kMxfp8E4M3, "stochastic", "a seed only with stochastic rounding",
       "rounding nearest", [](O& o) { o.stochastic.seed_offset = 1; }},
      {Format::kNvfp4, "shard", "a position only with stochastic rounding",
       "rounding nearest", [](O& o) { o.shard.row_offset = 16; }},
      {Format::kFp8E4M3, "shard", "a position only with stochastic rounding",
       "rounding nearest", [](O& o) { o.shard.total_columns = 128; }},
      {Format::kNvfp4, "dbias_dtype", "dbias_dtype only together with dbias",
       "no dbias", [](O& o) { o.dbias_dtype = DType::kF32; }},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(fmt::format("{}: {}", c.field, c.got));
    PlanRequest r(c.format);
    c.edit(r.quantize);
    ExpectRefused(Make(kQuantize, r).status(), c.field, c.expected, c.got);
  }
  // Setting an option to its default is legal.
  PlanRequest r;
  r.quantize.shard.total_columns = 64;
  r.quantize.nvfp4.amax_estimation_scale = 0;
  EXPECT_THAT(Make(kQuantize, r), IsOk());
}

}  // namespace
}  // namespace quantd
