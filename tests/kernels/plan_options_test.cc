// What may be asked of which format, beside what, and with which numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <string>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "kernels/support.h"
#include "tests/kernels/plan_request.h"

namespace quantd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr float kInf = std::numeric_limits<float>::infinity();

using Edit = std::function<void(QuantizeOptions&)>;

// An option used in the simplest way, and the formats that have it: written
// down here from the rules, not from the table under test.
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
  static const auto all = join({nvfp4, tensor, mx, block});
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
       [](O& o) { o.four_over_six = FourOverSix::kMse; }},
      {"swizzled", "form.scale_layout", join({nvfp4, mx}),
       [](O& o) { o.form.scale_layout = Layout::kSwizzled; }},
      {"compact",
       "form.compact_scales",
       {"nvfp4_2d"},
       [](O& o) { o.form.compact_scales = true; }},
      {"given_amax", "given_amax", join({nvfp4, tensor}),
       [](O& o) { o.columnwise_amax = {1}; }},
      {"estimation",
       "amax_estimation_scale",
       {"nvfp4"},
       [](O& o) {
         o.amax_estimation_scale = 2.0f;
         o.rht.columnwise = true;
       }},
      {"epsilon", "epsilon", join({tensor, block}),
       [](O& o) { o.epsilon = 1e-12f; }},
      {"power_of_two", "power_of_two", join({tensor, block}),
       [](O& o) { o.power_of_two = false; }},
      {"given_scale", "scale", tensor, [](O& o) { o.scale = {7}; }},
      {"history", "history", tensor,
       [](O& o) {
         o.history = HistoryOptions{{0, 1}};
         o.scale = {7};
       }},
      {"scale_rule", "scale_rule", mx,
       [](O& o) { o.scale_rule = ScaleRule::kFloor; }},
      {"grouped", "splits", all,
       [](O& o) {
         o.splits = {{16, 16}};
       }},
      {"dbias", "dbias", all, [](O& o) { o.dbias = true; }},
      {"statistics", "statistics", all, [](O& o) { o.statistics = true; }},
  };
  return uses;
}

TEST(OptionsTest, EveryOptionOfEveryFormat) {
  ASSERT_EQ(Uses().size(), Options().size());
  ASSERT_EQ(std::size(kFormats), 11u);
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
      // Estimation and history bring another option along, which may be
      // refused first.
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

// The two parts of a refusal that the loop above leaves open.
TEST(OptionsTest, EstimationAndHistoryNameTheirFormats) {
  PlanRequest mx(Format::kMxfp4);
  mx.quantize.rht.columnwise = true;
  mx.quantize.amax_estimation_scale = 2.0f;
  ExpectRefused(Make(kQuantize, mx).status(), "amax_estimation_scale",
                "estimation only with nvfp4", "estimation with mxfp4");
  PlanRequest plain;
  plain.quantize.history = HistoryOptions{{1}};
  ExpectRefused(Make(kQuantize, plain).status(), "history",
                "history only with fp8_e4m3, fp8_e5m2", "history with nvfp4");
}

struct Pair {
  Format format;
  std::string_view a, b;  // names in Uses
  std::string_view field;
};

Edit UseOf(std::string_view name) {
  for (const Use& use : Uses()) {
    if (use.name == name) return use.edit;
  }
  ADD_FAILURE() << name;
  return [](QuantizeOptions&) {};
}

TEST(OptionsTest, WhatExcludesEachOther) {
  const Pair pairs[] = {
      {Format::kNvfp4, "four_over_six", "stochastic", "four_over_six"},
      {Format::kNvfp4Square, "four_over_six", "stochastic", "four_over_six"},
      {Format::kNvfp4, "four_over_six", "rht", "four_over_six"},
      {Format::kNvfp4, "row_scaled", "stochastic", "form.row_scaled"},
      {Format::kNvfp4, "row_scaled", "rht", "form.row_scaled"},
      {Format::kNvfp4Square, "swizzled", "compact", "form.scale_layout"},
      {Format::kFp8E4M3, "history", "grouped", "history"},
  };
  EXPECT_EQ(Conflicts().size(), 7u);  // and one for the test below
  for (const Pair& p : pairs) {
    SCOPED_TRACE(fmt::format("{} and {}", p.a, p.b));
    PlanRequest r(p.format);
    UseOf(p.a)(r.quantize);
    UseOf(p.b)(r.quantize);
    if (p.b == "grouped") r.quantize.scale = {1, 1};
    ExpectRefused(Make(kQuantize, r).status(), p.field,
                  fmt::format("{} or {}, not both", p.a, p.b), "both");
  }
}

TEST(OptionsTest, FourOverSixOfScaledRowsIsForRowsAlone) {
  PlanRequest r;
  r.quantize.four_over_six = FourOverSix::kMae;
  r.quantize.form.row_scaled = true;
  for (const Usage usage : {Usage::kBoth, Usage::kColumnwise}) {
    r.quantize.usage = usage;
    ExpectRefused(Make(kQuantize, r).status(), "four_over_six",
                  "four_over_six or row_scaled, not both (rowwise alone may "
                  "have both)",
                  "both");
  }
  r.quantize.usage = Usage::kRowwise;
  EXPECT_THAT(Make(kQuantize, r), IsOk());
}

// Decision D10: everything not named there is legal. These are the pairs
// most likely to be refused by mistake.
TEST(OptionsTest, WhatIsLegalTogether) {
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
      {Format::kFp8E4M3, {"history", "dbias", "statistics", "given_amax"}},
      {Format::kMxfp8E4M3, {"rht", "scale_rule", "swizzled", "grouped"}},
      {Format::kMxfp4, {"rht", "stochastic", "scale_rule", "swizzled"}},
      {Format::kFp8BlockE4M3, {"epsilon", "power_of_two", "grouped", "dbias"}},
      {Format::kFp8SquareE5M2, {"epsilon", "power_of_two", "grouped"}},
  };
  for (const auto& c : kCases) {
    PlanRequest r(c.format);
    for (std::string_view name : c.names) UseOf(name)(r.quantize);
    if (r.quantize.splits && !r.quantize.columnwise_amax.empty()) {
      r.quantize.columnwise_amax = {1, 2};
    }
    EXPECT_THAT(Make(kQuantize, r), IsOk())
        << Name(c.format) << fmt::format(" {}", fmt::join(c.names, " "));
  }
}

struct Wrong {
  Format format;
  std::string_view field, expected, got;
  Edit edit;
};

TEST(OptionsTest, WrongNumbersAndChoices) {
  using O = QuantizeOptions;
  const Wrong rows[] = {
      {Format::kNvfp4, "given_amax.rowwise", "a finite number >= 0", "-1",
       [](O& o) { o.rowwise_amax = {-1}; }},
      {Format::kNvfp4, "given_amax.rowwise", "a finite number >= 0", "nan",
       [](O& o) { o.rowwise_amax = {NAN}; }},
      {Format::kNvfp4, "given_amax.columnwise", "a finite number >= 0", "inf",
       [](O& o) { o.columnwise_amax = {kInf}; }},
      {Format::kNvfp4, "given_amax.columnwise", "1 value, one for the tensor",
       "2 values",
       [](O& o) {
         o.columnwise_amax = {1, 2};
       }},
      {Format::kNvfp4, "given_amax.rowwise", "2 values, one for each group",
       "1 value",
       [](O& o) {
         o.rowwise_amax = {1};
         o.splits = {{16, 16}};
       }},
      {Format::kNvfp4, "given_amax.rowwise", "32 values, one for each line",
       "1 value",
       [](O& o) {
         o.rowwise_amax = {1};
         o.form.row_scaled = true;
       }},
      {Format::kNvfp4, "given_amax.columnwise", "64 values, one for each line",
       "32 values",
       [](O& o) {
         o.columnwise_amax.resize(32);
         o.form.row_scaled = true;
       }},
      {Format::kNvfp4, "given_amax.columnwise", "128 values, one for each line",
       "64 values",
       [](O& o) {
         o.columnwise_amax.resize(64);
         o.form.row_scaled = true;
         o.splits = {{32, 0}};
       }},
      {Format::kFp8E4M3, "scale", "a finite number > 0", "0",
       [](O& o) { o.scale = {0}; }},
      {Format::kFp8E4M3, "scale", "a finite number > 0", "-2",
       [](O& o) { o.scale = {-2}; }},
      {Format::kFp8E4M3, "scale", "a finite number > 0", "inf",
       [](O& o) { o.scale = {kInf}; }},
      {Format::kFp8E4M3, "scale", "a finite number > 0", "nan",
       [](O& o) { o.scale = {NAN}; }},
      {Format::kFp8E4M3, "scale", "1 value, one for the tensor", "2 values",
       [](O& o) {
         o.scale = {1, 1};
       }},
      {Format::kFp8E4M3, "scale", "3 values, one for each group", "1 value",
       [](O& o) {
         o.scale = {1};
         o.splits = {{0, 32, 0}};
       }},
      {Format::kNvfp4, "amax_estimation_scale",
       "estimation only together with rht", "no rht",
       [](O& o) { o.amax_estimation_scale = 2.0f; }},
      // A rotation of a copy nobody asked for is none.
      {Format::kNvfp4, "amax_estimation_scale",
       "estimation only together with rht", "no rht",
       [](O& o) {
         o.amax_estimation_scale = 2.0f;
         o.usage = Usage::kRowwise;
         o.rht.columnwise = true;
       }},
      {Format::kNvfp4, "amax_estimation_scale", "a finite number > 0", "0",
       [](O& o) {
         o.amax_estimation_scale = 0.0f;
         o.rht.columnwise = true;
       }},
      {Format::kNvfp4, "amax_estimation_scale", "a finite number > 0", "nan",
       [](O& o) {
         o.amax_estimation_scale = NAN;
         o.rht.columnwise = true;
       }},
      {Format::kFp8E4M3, "epsilon", "a finite number >= 0", "-1",
       [](O& o) { o.epsilon = -1; }},
      {Format::kFp8E4M3, "epsilon", "a finite number >= 0", "nan",
       [](O& o) { o.epsilon = NAN; }},
      {Format::kFp8BlockE4M3, "epsilon", "a finite number >= 0", "inf",
       [](O& o) { o.epsilon = kInf; }},
      // NaN is no option that another format lacks.
      {Format::kMxfp4, "epsilon",
       "epsilon only with fp8_e4m3, fp8_e5m2, fp8_block_e4m3, "
       "fp8_block_e5m2, fp8_block_2d_e4m3, fp8_block_2d_e5m2",
       "epsilon with mxfp4", [](O& o) { o.epsilon = NAN; }},
      {Format::kNvfp4, "form.scale_256", "scale_256 only with four_over_six",
       "no four_over_six", [](O& o) { o.form.scale_256 = true; }},
      {Format::kNvfp4, "fast_error", "fast_error only with four_over_six",
       "no four_over_six", [](O& o) { o.fast_error = true; }},
      {Format::kFp8E4M3, "history", "history only together with given_scale",
       "no given_scale", [](O& o) { o.history = HistoryOptions{{1}}; }},
      {Format::kFp8E4M3, "history.amax", "1 to 65536 values", "0",
       [](O& o) {
         o.history = HistoryOptions{};
         o.scale = {1};
       }},
      {Format::kFp8E4M3, "history.amax", "1 to 65536 values", "65537",
       [](O& o) {
         o.history = HistoryOptions{std::vector<float>(65537)};
         o.scale = {1};
       }},
      {Format::kFp8E4M3, "history.margin", "-127 to 127", "128",
       [](O& o) {
         o.history = HistoryOptions{{1}, HistoryRule::kMax, 128};
         o.scale = {1};
       }},
      {Format::kFp8E4M3, "history.margin", "-127 to 127", "-2147483648",
       [](O& o) {
         o.history = HistoryOptions{
             {1}, HistoryRule::kMax, std::numeric_limits<int>::min()};
         o.scale = {1};
       }},
      {Format::kFp8E4M3, "history.rule", "max or most_recent", "number 2",
       [](O& o) {
         o.history = HistoryOptions{{1}, static_cast<HistoryRule>(2)};
         o.scale = {1};
       }},
      {Format::kNvfp4, "rounding", "nearest or stochastic", "number 2",
       [](O& o) { o.rounding = static_cast<Rounding>(2); }},
      {Format::kNvfp4, "scale_rule", "up, floor, ceil or even", "number -1",
       [](O& o) { o.scale_rule = static_cast<ScaleRule>(-1); }},
      {Format::kNvfp4, "four_over_six", "off, mae or mse", "number 3",
       [](O& o) { o.four_over_six = static_cast<FourOverSix>(3); }},
      {Format::kNvfp4, "form.scale_layout", "linear or swizzled", "number 0",
       [](O& o) { o.form.scale_layout = Layout::kUnspecified; }},
      {Format::kNvfp4, "usage", "a copy, or dbias or amax beside none",
       "nothing to do", [](O& o) { o.usage = Usage::kNone; }},
      {Format::kNvfp4, "dbias_dtype", "f32, f16 or bf16", "e8m0",
       [](O& o) {
         o.dbias = true;
         o.dbias_dtype = DType::kE8M0;
       }},
  };
  for (const Wrong& row : rows) {
    SCOPED_TRACE(fmt::format("{}: {}", row.field, row.got));
    PlanRequest r(row.format);
    row.edit(r.quantize);
    ExpectRefused(Make(kQuantize, r).status(), row.field, row.expected,
                  row.got);
  }
}

TEST(OptionsTest, OneAmaxServesBothOnlyWithoutRotation) {
  const auto amaxes = [](const PlanRequest& r) {
    const auto plan = Make(kQuantize, r);
    EXPECT_THAT(plan, IsOk());
    return std::get<QuantizeOptions>(plan->options());
  };
  PlanRequest r;
  r.quantize.rowwise_amax = {3};
  EXPECT_THAT(amaxes(r).columnwise_amax, ElementsAre(3));
  r.quantize.columnwise_amax = {0};
  EXPECT_THAT(amaxes(r).rowwise_amax, ElementsAre(3));
  EXPECT_THAT(amaxes(r).columnwise_amax, ElementsAre(0));
  r.quantize.rowwise_amax.clear();
  EXPECT_THAT(amaxes(r).rowwise_amax, ElementsAre(0));
  r.quantize.rht.columnwise = true;
  EXPECT_THAT(amaxes(r).rowwise_amax, IsEmpty());
  // A row has another amax than a column.
  PlanRequest lines;
  lines.quantize.form.row_scaled = true;
  lines.quantize.rowwise_amax.assign(32, 1);
  EXPECT_THAT(amaxes(lines).columnwise_amax, IsEmpty());
}

TEST(OptionsTest, DefaultsAreFilledIn) {
  const auto used = [](const PlanRequest& r) {
    const auto plan = Make(kQuantize, r);
    EXPECT_THAT(plan, IsOk());
    return std::get<QuantizeOptions>(plan->options());
  };
  EXPECT_EQ(used(PlanRequest(Format::kNvfp4)).power_of_two, std::nullopt);
  EXPECT_EQ(used(PlanRequest(Format::kMxfp4)).power_of_two, std::nullopt);
  EXPECT_EQ(used(PlanRequest(Format::kFp8E5M2)).power_of_two, false);
  EXPECT_EQ(used(PlanRequest(Format::kFp8BlockE5M2)).power_of_two, true);
  EXPECT_EQ(used(PlanRequest(Format::kFp8SquareE4M3)).power_of_two, true);
  PlanRequest r;
  r.quantize.shard.column_offset = 100;
  EXPECT_EQ(used(r).shard.total_columns, 164);
  EXPECT_EQ(used(r).dbias_dtype, DType::kUnspecified);
  r.quantize.dbias = true;
  EXPECT_EQ(used(r).dbias_dtype, DType::kBF16);
  EXPECT_FALSE(used(r).statistics);
  r.quantize.rht.rowwise = true;
  r.quantize.rht.dimension = 32;
  r.quantize.amax_estimation_scale = 2.0f;
  EXPECT_TRUE(used(r).statistics);
  EXPECT_EQ(used(r).rht.sign_mask, (SignMask{{0xD7E8D7E8, 0}}));
}

TEST(OptionsTest, PositionsOfShards) {
  constexpr int64_t kMost = int64_t{1} << 48;
  const auto check = [](int64_t row, int64_t column, int64_t total) {
    PlanRequest r;
    r.quantize.shard = {row, column, total};
    return Make(kQuantize, r).status();
  };
  EXPECT_THAT(check(0, 0, 64), IsOk());
  EXPECT_THAT(check(kMost, 7, 0), IsOk());  // a column that is no multiple
  EXPECT_THAT(check(0, kMost - 64, kMost), IsOk());
  ExpectRefused(check(-1, 0, 0), "shard.row_offset", "0 to 281474976710656",
                "-1");
  ExpectRefused(check(kMost + 1, 0, 0), "shard.row_offset",
                "0 to 281474976710656", "281474976710657");
  ExpectRefused(check(0, -16, 0), "shard.column_offset", "0 to 281474976710656",
                "-16");
  ExpectRefused(check(0, INT64_MAX, 0), "shard.column_offset",
                "0 to 281474976710656", "9223372036854775807");
  ExpectRefused(check(0, 16, 79), "shard.total_columns",
                "80 (column_offset + K) to 281474976710656", "79");
  ExpectRefused(check(0, 0, -64), "shard.total_columns",
                "64 (column_offset + K) to 281474976710656", "-64");
  ExpectRefused(check(0, 0, INT64_MAX), "shard.total_columns",
                "64 (column_offset + K) to 281474976710656",
                "9223372036854775807");
}

TEST(OptionsTest, WhatCannotBeMadeCannotBeDecoded) {
  struct Case {
    Format format;
    std::string_view field, expected, got;
    std::function<void(DequantizeOptions&)> edit;
  };
  using O = DequantizeOptions;
  const Case cases[] = {
      {Format::kFp8E4M3, "rht",
       "rht only with nvfp4, mxfp8_e4m3, mxfp8_e5m2, mxfp4",
       "rht with fp8_e4m3", [](O& o) { o.inverse_rht = true; }},
      {Format::kNvfp4Square, "rht",
       "rht only with nvfp4, mxfp8_e4m3, mxfp8_e5m2, mxfp4",
       "rht with nvfp4_2d", [](O& o) { o.inverse_rht = true; }},
      {Format::kMxfp4, "form.scale_256",
       "four_over_six only with nvfp4, nvfp4_2d", "four_over_six with mxfp4",
       [](O& o) { o.form.scale_256 = true; }},
      {Format::kNvfp4, "form.scale_256", "four_over_six or rht, not both",
       "both",
       [](O& o) {
         o.form.scale_256 = true;
         o.inverse_rht = true;
       }},
      {Format::kNvfp4, "form.scale_256",
       "four_over_six or row_scaled, not both (rowwise alone may have both)",
       "both",
       [](O& o) {
         o.form.scale_256 = true;
         o.form.row_scaled = true;
         o.usage = Usage::kColumnwise;
       }},
      {Format::kNvfp4Square, "form.row_scaled", "row_scaled only with nvfp4",
       "row_scaled with nvfp4_2d", [](O& o) { o.form.row_scaled = true; }},
      {Format::kNvfp4, "form.row_scaled", "row_scaled or rht, not both", "both",
       [](O& o) {
         o.form.row_scaled = true;
         o.inverse_rht = true;
       }},
      {Format::kNvfp4, "form.compact_scales", "compact only with nvfp4_2d",
       "compact with nvfp4", [](O& o) { o.form.compact_scales = true; }},
      {Format::kFp8BlockE4M3, "form.scale_layout",
       "swizzled only with nvfp4, nvfp4_2d, mxfp8_e4m3, mxfp8_e5m2, mxfp4",
       "swizzled with fp8_block_e4m3",
       [](O& o) { o.form.scale_layout = Layout::kSwizzled; }},
      {Format::kNvfp4, "form.scale_layout", "linear or swizzled", "number 5",
       [](O& o) { o.form.scale_layout = static_cast<Layout>(5); }},
      {Format::kNvfp4, "splits", "sizes whose sum is 32 rows", "31",
       [](O& o) { o.splits = {{31}}; }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(fmt::format("{}: {}", c.field, c.expected));
    PlanRequest r(c.format);
    c.edit(r.dequantize);
    ExpectRefused(Make(kDequantize, r).status(), c.field, c.expected, c.got);
  }
}

TEST(OptionsTest, DomainsOfMaxima) {
  PlanRequest r;
  r.amax.domain = static_cast<AmaxDomain>(2);
  ExpectRefused(Make(kAmax, r).status(), "domain", "tensor or row", "number 2");
}

}  // namespace
}  // namespace quantd
