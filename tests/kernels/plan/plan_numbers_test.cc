// Numbers and enum values that are illegal in every combination, and the
// defaults of a plan.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "fmt/format.h"
#include "kernels/plan/amax_source.h"
#include "tests/kernels/plan/plan_request.h"

namespace quantd {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

using Edit = std::function<void(QuantizeOptions&)>;

struct Wrong {
  Format format;
  std::string_view field, expected, got;
  Edit edit;
};

TEST(NumbersTest, WrongNumbersAndChoices) {
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
       [](O& o) { o.fp8.scale = {0}; }},
      {Format::kFp8E4M3, "scale", "a finite number > 0", "-2",
       [](O& o) { o.fp8.scale = {-2}; }},
      {Format::kFp8E4M3, "scale", "a finite number > 0", "inf",
       [](O& o) { o.fp8.scale = {kInf}; }},
      {Format::kFp8E4M3, "scale", "a finite number > 0", "nan",
       [](O& o) { o.fp8.scale = {NAN}; }},
      {Format::kFp8E4M3, "scale", "1 value, one for the tensor", "2 values",
       [](O& o) {
         o.fp8.scale = {1, 1};
       }},
      {Format::kFp8E4M3, "scale", "3 values, one for each group", "1 value",
       [](O& o) {
         o.fp8.scale = {1};
         o.splits = {{0, 32, 0}};
       }},
      {Format::kNvfp4, "amax_estimation_scale",
       "estimation only together with rht", "no rht",
       [](O& o) { o.nvfp4.amax_estimation_scale = 2.0f; }},
      {Format::kNvfp4, "amax_estimation_scale",
       "a finite number > 0, or 0 for no estimate", "-2",
       [](O& o) {
         o.nvfp4.amax_estimation_scale = -2.0f;
         o.rht.columnwise = true;
       }},
      {Format::kNvfp4, "amax_estimation_scale",
       "a finite number > 0, or 0 for no estimate", "nan",
       [](O& o) {
         o.nvfp4.amax_estimation_scale = NAN;
         o.rht.columnwise = true;
       }},
      {Format::kFp8E4M3, "epsilon", "a finite number >= 0", "-1",
       [](O& o) { o.fp8.epsilon = -1; }},
      {Format::kFp8E4M3, "epsilon", "a finite number >= 0", "nan",
       [](O& o) { o.fp8.epsilon = NAN; }},
      {Format::kFp8BlockE4M3, "epsilon", "a finite number >= 0", "inf",
       [](O& o) { o.fp8.epsilon = kInf; }},
      // NaN counts as a value that is set, so the format's lack of the option
      // is reported.
      {Format::kMxfp4, "epsilon",
       "epsilon only with fp8_e4m3, fp8_e5m2, fp8_block_e4m3, "
       "fp8_block_e5m2, fp8_block_2d_e4m3, fp8_block_2d_e5m2, fp8_channel_e4m3",
       "epsilon with mxfp4", [](O& o) { o.fp8.epsilon = NAN; }},
      {Format::kNvfp4, "form.scale_256", "scale_256 only with four_over_six",
       "no four_over_six", [](O& o) { o.form.scale_256 = true; }},
      {Format::kNvfp4, "fast_error", "fast_error only with four_over_six",
       "no four_over_six", [](O& o) { o.nvfp4.fast_error = true; }},
      {Format::kFp8E4M3, "history", "history only together with given_scale",
       "no given_scale", [](O& o) { o.fp8.history = HistoryOptions{{1}}; }},
      {Format::kFp8E4M3, "history.amax", "1 to 65536 values", "0",
       [](O& o) {
         o.fp8.history = HistoryOptions{};
         o.fp8.scale = {1};
       }},
      {Format::kFp8E4M3, "history.amax", "1 to 65536 values", "65537",
       [](O& o) {
         o.fp8.history = HistoryOptions{std::vector<float>(65537)};
         o.fp8.scale = {1};
       }},
      {Format::kFp8E4M3, "history.amax",
       "1 to 65536 values for each of 3 groups", "4",
       [](O& o) {
         o.fp8.history = HistoryOptions{std::vector<float>(4)};
         o.splits = {{0, 32, 0}};
         o.fp8.scale = {1, 1, 1};
       }},
      {Format::kFp8E4M3, "history.amax",
       "1 to 65536 values for each of 2 groups", "131074",
       [](O& o) {
         o.fp8.history = HistoryOptions{std::vector<float>(131074)};
         o.splits = {{0, 32}};
         o.fp8.scale = {1, 1};
       }},
      {Format::kNvfp4, "splits", "sizes whose sum is 32 rows", "31",
       [](O& o) {
         o.splits = {{16, 15}};
       }},
      {Format::kNvfp4, "splits", "sizes >= 0 whose sum is at most 32 rows",
       "a larger sum",
       [](O& o) {
         o.splits = {{16, 17}};
         o.partial_splits = true;
       }},
      {Format::kNvfp4, "splits.partial", "partial only with splits",
       "no splits", [](O& o) { o.partial_splits = true; }},
      {Format::kFp8E4M3, "history.margin", "-127 to 127", "128",
       [](O& o) {
         o.fp8.history = HistoryOptions{{1}, HistoryRule::kMax, 128};
         o.fp8.scale = {1};
       }},
      {Format::kFp8E4M3, "history.margin", "-127 to 127", "-2147483648",
       [](O& o) {
         o.fp8.history = HistoryOptions{
             {1}, HistoryRule::kMax, std::numeric_limits<int>::min()};
         o.fp8.scale = {1};
       }},
      {Format::kFp8E4M3, "history.rule", "max or most_recent", "number 2",
       [](O& o) {
         o.fp8.history = HistoryOptions{{1}, static_cast<HistoryRule>(2)};
         o.fp8.scale = {1};
       }},
      {Format::kNvfp4, "rounding", "nearest or stochastic", "number 2",
       [](O& o) { o.rounding = static_cast<Rounding>(2); }},
      {Format::kNvfp4, "scale_rule", "up, floor, ceil or even", "number -1",
       [](O& o) { o.mx.scale_rule = static_cast<ScaleRule>(-1); }},
      {Format::kNvfp4, "four_over_six", "off, mae or mse", "number 3",
       [](O& o) { o.nvfp4.four_over_six = static_cast<FourOverSix>(3); }},
      {Format::kNvfp4, "form.scale_layout", "linear or swizzled", "number 0",
       [](O& o) { o.form.scale_layout = Layout::kUnspecified; }},
      {Format::kNvfp4, "usage", "a copy, dbias or amax",
       "usage none without dbias and amax",
       [](O& o) { o.usage = Usage::kNone; }},
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

TEST(NumbersTest, SourcesOfAmaxes) {
  using Kind = AmaxSource::Kind;
  const auto expect = [](const QuantizeOptions& o, bool columnwise, Kind kind,
                         std::vector<float> values = {}, float factor = 1) {
    const AmaxSource source = SourceOfAmax(o, columnwise);
    EXPECT_EQ(source.kind, kind);
    EXPECT_EQ(source.values(), values);
    EXPECT_EQ(source.factor, factor);
  };
  QuantizeOptions o = PlanRequest().quantize;
  expect(o, false, Kind::kPlain);
  o.rowwise_amax = {3};
  expect(o, true, Kind::kGiven, {3});
  o.columnwise_amax = {0};
  expect(o, false, Kind::kGiven, {3});
  expect(o, true, Kind::kGiven, {0});
  o.rowwise_amax.clear();
  expect(o, false, Kind::kGiven, {0});
  // The amax of a rotated copy is not used for the other copy.
  o.rht.columnwise = true;
  expect(o, false, Kind::kPlain);
  expect(o, true, Kind::kGiven, {0});
  o.columnwise_amax.clear();
  expect(o, true, Kind::kRotated);
  // A producer's amax is scaled like a computed one.
  o.nvfp4.amax_estimation_scale = 2;
  expect(o, true, Kind::kPlain, {}, 2);
  o.rowwise_amax = {100};
  expect(o, false, Kind::kGiven, {100});
  expect(o, true, Kind::kGiven, {200}, 2);
  o.usage = Usage::kColumnwise;
  expect(o, false, Kind::kNone);
  expect(o, true, Kind::kGiven, {200}, 2);
  o.columnwise_amax = {7};
  expect(o, true, Kind::kGiven, {7});
  o.columnwise_amax.clear();
  o.nvfp4.amax_estimation_scale = 0;
  expect(o, true, Kind::kRotated);
  // Amaxes of rows are not amaxes of columns.
  QuantizeOptions lines = PlanRequest().quantize;
  lines.form.row_scaled = true;
  lines.rowwise_amax.assign(2, 1);
  expect(lines, false, Kind::kGiven, {1, 1});
  expect(lines, true, Kind::kLines);
  expect(PlanRequest(Format::kMxfp4).quantize, false, Kind::kNone);
}

TEST(NumbersTest, DefaultsAreFilledIn) {
  const auto used = [](const PlanRequest& r) {
    const auto plan = Make(kQuantize, r);
    EXPECT_THAT(plan, IsOk());
    return std::get<QuantizeOptions>(plan->options());
  };
  EXPECT_EQ(used(PlanRequest(Format::kNvfp4)).fp8.power_of_two, std::nullopt);
  EXPECT_EQ(used(PlanRequest(Format::kMxfp4)).fp8.power_of_two, std::nullopt);
  EXPECT_EQ(used(PlanRequest(Format::kFp8E5M2)).fp8.power_of_two, false);
  PlanRequest delayed(Format::kFp8E5M2);
  delayed.quantize.fp8.scale = {1};
  EXPECT_EQ(used(delayed).fp8.power_of_two, std::nullopt);
  EXPECT_EQ(used(PlanRequest(Format::kFp8BlockE5M2)).fp8.power_of_two, true);
  EXPECT_EQ(used(PlanRequest(Format::kFp8SquareE4M3)).fp8.power_of_two, true);
  PlanRequest r;
  EXPECT_EQ(used(r).shard.total_columns, 0);
  EXPECT_FALSE(used(r).rht.sign_mask.has_value());
  r.quantize.rounding = Rounding::kStochastic;
  r.quantize.shard.column_offset = 100;
  EXPECT_EQ(used(r).shard.total_columns, 164);
  EXPECT_EQ(used(r).dbias_dtype, DType::kUnspecified);
  r.quantize.dbias = true;
  EXPECT_EQ(used(r).dbias_dtype, DType::kBF16);
  EXPECT_FALSE(used(r).statistics);
  r.quantize.rht.rowwise = true;
  r.quantize.rht.dimension = 32;
  r.quantize.nvfp4.amax_estimation_scale = 2.0f;
  EXPECT_FALSE(used(r).statistics);
  EXPECT_EQ(used(r).rht.sign_mask, (SignMask{{0xD7E8D7E8, 0}}));
}

TEST(NumbersTest, PositionsOfShards) {
  constexpr int64_t kMost = int64_t{1} << 48;
  const auto check = [](int64_t row, int64_t column, int64_t total) {
    PlanRequest r;
    r.quantize.rounding = Rounding::kStochastic;
    r.quantize.shard = {row, column, total};
    return Make(kQuantize, r).status();
  };
  EXPECT_THAT(check(0, 0, 64), IsOk());
  EXPECT_THAT(check(kMost, 7, 0), IsOk());  // not a multiple of 16
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

TEST(NumbersTest, CopiesThatCannotBeMadeCannotBeDecoded) {
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
      {Format::kFp8E4M3, "rotated_dimension",
       "rht only with nvfp4, mxfp8_e4m3, mxfp8_e5m2, mxfp4",
       "rht with fp8_e4m3", [](O& o) { o.rotated_dimension = 16; }},
      {Format::kNvfp4, "rotated_dimension", "16, 32, 64 or 128", "48",
       [](O& o) { o.rotated_dimension = 48; }},
      {Format::kNvfp4, "rotated_dimension", "inverse_rht or rotated_dimension",
       "both",
       [](O& o) {
         o.inverse_rht = true;
         o.rotated_dimension = 16;
       }},
      {Format::kNvfp4, "rht", "an inverse rotation", "a dimension alone",
       [](O& o) { o.rht_dimension = 32; }},
      {Format::kNvfp4, "rht", "an inverse rotation", "a sign mask alone",
       [](O& o) { o.sign_mask = SignMask{}; }},
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
       "four_over_six or row_scaled, not both (a rowwise copy alone may have "
       "both)",
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

TEST(NumbersTest, DomainsOfMaxima) {
  PlanRequest r;
  r.amax.domain = static_cast<AmaxDomain>(2);
  ExpectRefused(Make(kAmax, r).status(), "domain", "tensor or row", "number 2");
  r.amax.domain = AmaxDomain::kRow;
  r.amax.rht_dimension = 64;
  ExpectRefused(Make(kAmax, r).status(), "rht",
                "rht only with rowwise_rht or columnwise_rht",
                "a dimension alone");
  r.amax.columnwise_rht = true;
  EXPECT_THAT(Make(kAmax, r), IsOk());
}

}  // namespace
}  // namespace quantd
