// The options that are legal for each format, alone and in combination.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <iterator>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/plan/support.h"
#include "tests/kernels/device/plan_rows.h"
#include "tests/kernels/plan/plan_request.h"

namespace quantd {
namespace {

using Edit = std::function<void(QuantizeOptions&)>;

const OptionSpec& Spec(Option option) {
  return *std::find_if(Options().begin(), Options().end(),
                       [=](const auto& s) { return s.option == option; });
}

// A request for a format, with these settings in this order.
PlanRequest With(Format format, Usage usage,
                 std::initializer_list<const Setting*> settings) {
  PlanRequest r(format);
  r.tensor = Tensor({32, 128});
  r.quantize.usage = usage;
  for (const Setting* s : settings) s->set(r.tensor, r.quantize);
  return r;
}

TEST(OptionsTest, EveryOptionOfEveryFormat) {
  ASSERT_EQ(std::size(kFormats), 12u);
  for (const FormatSpec& format : kFormats) {
    for (const OptionSpec& spec : Options()) {
      ASSERT_FALSE(SettingsOf(spec.option).empty()) << spec.name;
      for (const Setting& s : SettingsOf(spec.option)) {
        SCOPED_TRACE(fmt::format("{} of {}", s.name, format.name));
        if ((format.options & spec.option) != 0) {
          // Some settings are only for requests of one copy.
          EXPECT_TRUE(std::any_of(
              std::begin(kUsages), std::end(kUsages), [&](Usage usage) {
                return Make(kQuantize, With(format.format, usage, {&s})).ok();
              }));
          continue;
        }
        const PlanRequest r = With(format.format, Usage::kBoth, {&s});
        const absl::Status status = Make(kQuantize, r).status();
        ASSERT_FALSE(status.ok());
        // A setting may need another option, which may be refused first.
        if ((UsedOptions(r.quantize) & ~format.options) != spec.option) {
          EXPECT_TRUE(GetFieldViolation(status).has_value());
          continue;
        }
        ExpectRefused(
            status, spec.field,
            fmt::format("{} only with {}", spec.name, FormatsWith(spec.option)),
            fmt::format("{} with {}", spec.name, format.name));
      }
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

TEST(OptionsTest, OptionsThatExcludeEachOther) {
  for (const Conflict& c : Conflicts()) {
    int checked = 0;
    for (const FormatSpec& format : kFormats) {
      if ((format.options & c.a) == 0 || (format.options & c.b) == 0) continue;
      for (const Setting& a : SettingsOf(c.a)) {
        for (const Setting& b : SettingsOf(c.b)) {
          SCOPED_TRACE(
              fmt::format("{} and {} of {}", a.name, b.name, format.name));
          const PlanRequest r = With(format.format, Usage::kBoth, {&a, &b});
          const absl::Status status = Make(kQuantize, r).status();
          ASSERT_FALSE(status.ok());
          // A setting may need another option, which may be refused first.
          if (UsedOptions(r.quantize) != (c.a | c.b)) continue;
          ExpectRefused(
              status, Spec(c.a).field,
              fmt::format(
                  "{} or {}, not both{}", Spec(c.a).name, Spec(c.b).name,
                  c.columnwise_only ? " (a rowwise copy alone may have both)"
                                    : ""),
              "both");
          ++checked;
        }
      }
    }
    const bool needs_another = c.b == kOptEstimation || c.b == kOptHistory;
    EXPECT_EQ(checked == 0, needs_another)
        << Spec(c.a).name << " " << Spec(c.b).name;
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
// refused by mistake. Groups come first, because others have values for each.
TEST(OptionsTest, LegalCombinations) {
  const struct {
    Format format;
    std::vector<std::string_view> names;
  } kCases[] = {
      {Format::kNvfp4, {"grouped", "rht", "stochastic", "dbias", "statistics"}},
      {Format::kNvfp4, {"grouped", "rht", "given_amax", "swizzled"}},
      {Format::kNvfp4, {"rht", "estimation", "stochastic", "swizzled"}},
      {Format::kNvfp4, {"grouped", "swizzled", "row_scaled", "dbias"}},
      {Format::kNvfp4, {"grouped", "four_over_six", "swizzled", "given_amax"}},
      {Format::kNvfp4Square, {"grouped", "four_over_six", "compact"}},
      {Format::kNvfp4Square, {"stochastic", "compact", "given_amax"}},
      {Format::kFp8E5M2, {"grouped", "epsilon", "power_of_two", "given_amax"}},
      {Format::kFp8E4M3, {"given_scale", "history", "dbias", "statistics"}},
      {Format::kFp8E5M2, {"grouped", "history", "dbias"}},
      {Format::kMxfp8E4M3, {"grouped", "rht", "scale_rule", "swizzled"}},
      {Format::kMxfp4, {"rht", "stochastic", "scale_rule", "swizzled"}},
      {Format::kFp8BlockE4M3, {"grouped", "epsilon", "power_of_two", "dbias"}},
      {Format::kFp8SquareE5M2, {"grouped", "epsilon", "power_of_two"}},
      {Format::kFp8ChannelE4M3, {"epsilon", "given_amax", "statistics"}},
  };
  for (const auto& c : kCases) {
    PlanRequest r(c.format);
    for (std::string_view name : c.names) {
      const auto spec =
          std::find_if(Options().begin(), Options().end(),
                       [&](const auto& s) { return s.name == name; });
      SettingsOf(spec->option)[0].set(r.tensor, r.quantize);
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
