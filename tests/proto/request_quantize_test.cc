// Tests that every field of QuantizeRequest reaches the plan, and that a wrong
// one gives its error. The plan's own tests check which combinations are legal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tests/proto/requests.h"

namespace quantd::wire {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

v1::QuantizeRequest Of(v1::Format format) {
  v1::QuantizeRequest m = Quantize();
  m.mutable_options()->set_format(format);
  return m;
}

QuantizeOptions OptionsOf(const v1::QuantizeRequest& m) {
  const auto request = Parse(m);
  EXPECT_THAT(request, IsOk());
  if (!request.ok()) return {};
  return std::get<QuantizeOptions>(request->plan->options());
}

TEST(ReadQuantize, TensorUsageAndRotation) {
  v1::QuantizeRequest m = Quantize();
  m.mutable_tensor()->clear_shape();
  for (int64_t d : {2, 2, 2, 16}) m.mutable_tensor()->add_shape(d);
  m.mutable_tensor()->set_flatten_axis(-2);
  m.mutable_options()->set_usage(v1::USAGE_BOTH);
  m.mutable_options()->set_non_finite(v1::NON_FINITE_REJECT);
  m.mutable_options()->mutable_rht()->set_columnwise(true);
  m.mutable_options()->mutable_rht()->set_dimension(32);
  m.mutable_options()->mutable_rht()->set_sign_mask("\x01\x80\x02\x40");
  m.mutable_options()->mutable_given_amax()->set_rowwise(0);
  m.mutable_options()->mutable_given_amax()->set_columnwise(3.5f);
  const auto request = Parse(m);
  ASSERT_THAT(request, IsOk());
  EXPECT_EQ(request->plan->rows(), 4);
  EXPECT_EQ(request->plan->cols(), 32);
  const auto& options = std::get<QuantizeOptions>(request->plan->options());
  EXPECT_EQ(options.usage, Usage::kBoth);
  EXPECT_EQ(options.non_finite, NonFinite::kReject);
  EXPECT_FALSE(options.rht.rowwise);
  EXPECT_TRUE(options.rht.columnwise);
  EXPECT_EQ(options.rht.dimension, 32);
  EXPECT_EQ(options.rht.sign_mask, (SignMask{{0x40028001, 0}}));
  EXPECT_THAT(options.rowwise_amax, ElementsAre(0));
  EXPECT_THAT(options.columnwise_amax, ElementsAre(3.5f));
}

TEST(ReadQuantize, StochasticRoundingOfAShard) {
  v1::QuantizeRequest m = Of(v1::FORMAT_MXFP4);
  m.mutable_options()->set_rounding(v1::ROUNDING_STOCHASTIC);
  m.mutable_options()->mutable_stochastic()->set_seed(0xFEDCBA9876543210);
  m.mutable_options()->mutable_stochastic()->set_seed_offset(~uint64_t{0});
  m.mutable_options()->mutable_shard()->set_row_offset(5);
  m.mutable_options()->mutable_shard()->set_column_offset(32);
  m.mutable_options()->mutable_shard()->set_total_columns(100);
  m.mutable_options()->set_scale_rule(v1::SCALE_RULE_EVEN);
  m.mutable_options()->set_statistics(true);
  m.mutable_options()->mutable_form()->set_scale_layout(v1::LAYOUT_SWIZZLED);
  const QuantizeOptions o = OptionsOf(m);
  EXPECT_EQ(o.format, Format::kMxfp4);
  EXPECT_EQ(o.rounding, Rounding::kStochastic);
  EXPECT_EQ(o.stochastic.seed, 0xFEDCBA9876543210);
  EXPECT_EQ(o.stochastic.seed_offset, ~uint64_t{0});
  EXPECT_EQ(o.shard.row_offset, 5);
  EXPECT_EQ(o.shard.column_offset, 32);
  EXPECT_EQ(o.shard.total_columns, 100);
  EXPECT_EQ(o.mx.scale_rule, ScaleRule::kEven);
  EXPECT_TRUE(o.statistics);
  EXPECT_EQ(o.form.scale_layout, Layout::kSwizzled);
}

TEST(ReadQuantize, FourOverSix) {
  v1::QuantizeRequest m = Of(v1::FORMAT_NVFP4_2D);
  m.mutable_options()->set_four_over_six(v1::FOUR_OVER_SIX_MSE);
  m.mutable_options()->set_fast_error(true);
  m.mutable_options()->mutable_form()->set_scale_256(true);
  m.mutable_options()->mutable_form()->set_compact_scales(true);
  const QuantizeOptions o = OptionsOf(m);
  EXPECT_EQ(o.nvfp4.four_over_six, FourOverSix::kMse);
  EXPECT_TRUE(o.nvfp4.fast_error);
  EXPECT_TRUE(o.form.scale_256);
  EXPECT_TRUE(o.form.compact_scales);
  EXPECT_EQ(o.form.scale_layout, Layout::kLinear);
}

TEST(ReadQuantize, DelayedScaling) {
  v1::QuantizeRequest m = Of(v1::FORMAT_FP8_E5M2);
  m.mutable_options()->add_scale(7);
  for (float h : {5.0f, kNan, -1.0f, kInf})
    m.mutable_options()->mutable_history()->add_amax(h);
  m.mutable_options()->mutable_history()->set_rule(
      v1::HISTORY_RULE_MOST_RECENT);
  m.mutable_options()->mutable_history()->set_margin(-3);
  m.mutable_options()->set_amax(true);
  m.mutable_options()->set_dbias(true);
  m.mutable_options()->set_dbias_dtype(v1::DTYPE_F32);
  const QuantizeOptions o = OptionsOf(m);
  EXPECT_THAT(o.fp8.scale, ElementsAre(7));
  ASSERT_TRUE(o.fp8.history.has_value());
  ASSERT_EQ(o.fp8.history->amax.size(), 4u);
  EXPECT_EQ(o.fp8.history->amax[0], 5);
  EXPECT_EQ(o.fp8.history->amax[3], kInf);
  EXPECT_EQ(o.fp8.history->rule, HistoryRule::kMostRecent);
  EXPECT_EQ(o.fp8.history->margin, -3);
  EXPECT_FALSE(o.fp8.power_of_two.has_value());
  EXPECT_TRUE(o.want_amax);
  EXPECT_TRUE(o.dbias);
  EXPECT_EQ(o.dbias_dtype, DType::kF32);
}

TEST(ReadQuantize, CurrentScaling) {
  v1::QuantizeRequest m = Of(v1::FORMAT_FP8_E5M2);
  m.mutable_options()->set_epsilon(1e-12f);
  m.mutable_options()->set_power_of_two(true);
  EXPECT_EQ(OptionsOf(m).fp8.epsilon, 1e-12f);
  EXPECT_EQ(OptionsOf(m).fp8.power_of_two, true);
}

// A server's default estimate acts as if the request had set it.
TEST(ReadQuantize, AppliesTheDefaultEstimate) {
  const auto options = [](const v1::QuantizeRequest& m) {
    const std::string bytes = m.SerializeAsString();
    const std::string_view whole = bytes;
    const auto request =
        ParseRequest(Method::kQuantize, absl::MakeSpan(&whole, 1), {1.5f});
    EXPECT_THAT(request, IsOk());
    return std::get<QuantizeOptions>(request->plan->options());
  };
  v1::QuantizeRequest m = Quantize();
  m.mutable_options()->set_usage(v1::USAGE_BOTH);
  EXPECT_FALSE(options(m).nvfp4.amax_estimation_scale.has_value());
  m.mutable_options()->mutable_rht()->set_columnwise(true);
  EXPECT_EQ(options(m).nvfp4.amax_estimation_scale, 1.5f);
  EXPECT_FALSE(OptionsOf(m).nvfp4.amax_estimation_scale.has_value());
  m.mutable_options()->set_amax_estimation_scale(2);
  EXPECT_EQ(options(m).nvfp4.amax_estimation_scale, 2.0f);
  m.mutable_options()->set_amax_estimation_scale(0);
  EXPECT_EQ(options(m).nvfp4.amax_estimation_scale, 0.0f);
  m.mutable_options()->clear_amax_estimation_scale();
  m.mutable_options()->mutable_given_amax()->set_rowwise(100);
  EXPECT_EQ(options(m).nvfp4.amax_estimation_scale, 1.5f);
  m.mutable_options()->mutable_given_amax()->set_columnwise(1);
  EXPECT_FALSE(options(m).nvfp4.amax_estimation_scale.has_value());
  // Rotated data of this format have no amax.
  v1::QuantizeRequest mx = Of(v1::FORMAT_MXFP4);
  mx.mutable_options()->mutable_rht()->set_rowwise(true);
  EXPECT_FALSE(options(mx).nvfp4.amax_estimation_scale.has_value());
}

// A lookup of the unknown format would end the process.
TEST(ReadQuantize, RefusesAnUnknownFormatWithADefaultEstimate) {
  for (const int format : {0, 99, -1}) {
    const std::string bytes =
        Of(static_cast<v1::Format>(format)).SerializeAsString();
    const std::string_view whole = bytes;
    const Slices slices = absl::MakeSpan(&whole, 1);
    const auto request = ParseRequest(Method::kQuantize, slices, {1.5f});
    EXPECT_EQ(request.status().code(), absl::StatusCode::kInvalidArgument);
    const auto violation = GetFieldViolation(request.status());
    ASSERT_TRUE(violation.has_value());
    EXPECT_EQ(violation->field, "format");
    EXPECT_EQ(ParseDescribeRequest(slices, {1.5f}).status(), request.status());
  }
}

TEST(ReadQuantize, RefusesARotationWithoutData) {
  EXPECT_WRONG(Quantize(), o.mutable_rht(), "rht",
               "rowwise or columnwise, the copy to rotate", "neither");
  EXPECT_WRONG(Of(v1::FORMAT_FP8_E4M3), o.mutable_rht()->set_dimension(16),
               "rht", "rowwise or columnwise, the copy to rotate", "neither");
}

TEST(ReadQuantize, TellsAbsentFromEmpty) {
  const QuantizeOptions none = OptionsOf(Of(v1::FORMAT_FP8_E4M3));
  EXPECT_FALSE(none.splits.has_value());
  EXPECT_FALSE(none.fp8.history.has_value());
  EXPECT_FALSE(none.nvfp4.amax_estimation_scale.has_value());
  EXPECT_THAT(none.rowwise_amax, IsEmpty());
  EXPECT_THAT(none.fp8.scale, IsEmpty());
  // A submessage that is present but empty.
  v1::QuantizeRequest m = Of(v1::FORMAT_FP8_E4M3);
  m.mutable_options()->mutable_given_amax();
  m.mutable_options()->mutable_form();
  m.mutable_options()->mutable_stochastic();
  m.mutable_options()->mutable_shard();
  EXPECT_THAT(OptionsOf(m).rowwise_amax, IsEmpty());
  EXPECT_WRONG(Quantize(), o.mutable_splits(), "splits", "1 to 16384 groups",
               "0");
  EXPECT_WRONG(Quantize(),
               (o.mutable_splits()->add_rows(INT64_MAX),
                o.mutable_splits()->add_rows(INT64_MAX)),
               "splits", "sizes >= 0 whose sum is 4 rows", "a larger sum");
  EXPECT_WRONG(Of(v1::FORMAT_FP8_E4M3), (o.add_scale(1), o.mutable_history()),
               "history.amax", "1 to 65536 values", "0");
}

TEST(ReadQuantize, AcceptsAmaxesAsOneValueOrAsAList) {
  v1::QuantizeRequest m = Quantize();
  m.mutable_options()->set_usage(v1::USAGE_BOTH);
  m.mutable_options()->mutable_given_amax()->add_rowwise_values(2);
  EXPECT_THAT(OptionsOf(m).rowwise_amax, ElementsAre(2));
  EXPECT_THAT(OptionsOf(m).columnwise_amax, IsEmpty());
  m.mutable_options()->mutable_splits()->add_rows(3);
  m.mutable_options()->mutable_splits()->add_rows(1);
  m.mutable_options()->mutable_given_amax()->add_rowwise_values(5);
  EXPECT_THAT(OptionsOf(m).rowwise_amax, ElementsAre(2, 5));
  m.mutable_options()->mutable_given_amax()->add_columnwise_values(0);
  m.mutable_options()->mutable_given_amax()->add_columnwise_values(1);
  EXPECT_THAT(OptionsOf(m).columnwise_amax, ElementsAre(0, 1));
  ASSERT_TRUE(OptionsOf(m).splits.has_value());
  EXPECT_THAT(*OptionsOf(m).splits, ElementsAre(3, 1));

  const auto both = [](bool columnwise) {
    v1::QuantizeRequest m = Quantize();
    v1::GivenAmax* amax = m.mutable_options()->mutable_given_amax();
    if (columnwise) {
      amax->set_columnwise(1);
      amax->add_columnwise_values(1);
    } else {
      amax->set_rowwise(1);
      amax->add_rowwise_values(1);
    }
    return Parse(m).status();
  };
  ExpectField(both(false), "given_amax.rowwise",
              "this or given_amax.rowwise_values, not both", "both");
  ExpectField(both(true), "given_amax.columnwise",
              "this or given_amax.columnwise_values, not both", "both");
}

TEST(ReadQuantize, ErrorsNameTheFieldOfTheAmax) {
  EXPECT_WRONG(Quantize(), o.mutable_given_amax()->add_rowwise_values(-1),
               "given_amax.rowwise_values", "a finite number >= 0", "-1");
  EXPECT_WRONG(Quantize(),
               (o.mutable_given_amax()->add_columnwise_values(1),
                o.mutable_given_amax()->add_columnwise_values(1)),
               "given_amax.columnwise_values", "1 value, one for the tensor",
               "2 values");
  EXPECT_WRONG(Quantize(),
               (o.mutable_given_amax()->set_rowwise(1),
                o.mutable_form()->set_row_scaled(true)),
               "given_amax.rowwise", "4 values, one for each line", "1 value");
}

TEST(ReadQuantize, RefusesUnknownEnumNumbers) {
  EXPECT_WRONG(Quantize(), o.set_rounding(static_cast<v1::Rounding>(2)),
               "rounding", "nearest or stochastic", "number 2");
  EXPECT_WRONG(Quantize(),
               o.set_four_over_six(static_cast<v1::FourOverSix>(-1)),
               "four_over_six", "off, mae or mse", "number -1");
  EXPECT_WRONG(Quantize(), o.set_scale_rule(static_cast<v1::ScaleRule>(4)),
               "scale_rule", "up, floor, ceil or even", "number 4");
  EXPECT_WRONG(Quantize(),
               o.mutable_form()->set_scale_layout(static_cast<v1::Layout>(3)),
               "form.scale_layout", "linear or swizzled", "number 3");
  EXPECT_WRONG(Of(v1::FORMAT_FP8_E4M3),
               (o.add_scale(1), o.mutable_history()->add_amax(1),
                o.mutable_history()->set_rule(static_cast<v1::HistoryRule>(9))),
               "history.rule", "max or most_recent", "number 9");
  EXPECT_WRONG(
      Quantize(),
      (o.set_dbias(true), o.set_dbias_dtype(static_cast<v1::DType>(42))),
      "dbias_dtype", "f32, f16 or bf16", "number 42");
  EXPECT_WRONG(RhtAmax(), o.set_domain(static_cast<v1::AmaxDomain>(2)),
               "domain", "tensor or row", "number 2");
}

// Returns a stochastic request for 40 x 64 at an offset in a larger tensor.
v1::QuantizeRequest ShardOf(v1::Format format, v1::Usage usage, int64_t row,
                            int64_t column, int64_t total = 0) {
  v1::QuantizeRequest m = Quantize();
  m.set_payload(Bytes(40 * 64 * 2));
  m.mutable_tensor()->set_shape(0, 40);
  m.mutable_tensor()->set_shape(1, 64);
  m.mutable_options()->set_format(format);
  m.mutable_options()->set_usage(usage);
  m.mutable_options()->set_rounding(v1::ROUNDING_STOCHASTIC);
  m.mutable_options()->mutable_shard()->set_row_offset(row);
  m.mutable_options()->mutable_shard()->set_column_offset(column);
  m.mutable_options()->mutable_shard()->set_total_columns(total);
  return m;
}

TEST(ReadQuantize, ShardsMustBeCutBetweenBlocks) {
  constexpr auto kRow = v1::USAGE_ROWWISE;
  constexpr auto kColumn = v1::USAGE_COLUMNWISE;
  // Rowwise data may be cut before any row.
  EXPECT_THAT(Parse(ShardOf(v1::FORMAT_NVFP4, kRow, 10, 16)), IsOk());
  EXPECT_THAT(Parse(ShardOf(v1::FORMAT_NVFP4, kColumn, 16, 10)), IsOk());
  EXPECT_WRONG(ShardOf(v1::FORMAT_NVFP4, kRow, 0, 10), (void)m,
               "shard.column_offset", "a multiple of 16", "10");
  EXPECT_WRONG(ShardOf(v1::FORMAT_NVFP4, kColumn, 10, 0), (void)m,
               "shard.row_offset", "a multiple of 16", "10");
  EXPECT_WRONG(ShardOf(v1::FORMAT_MXFP4, v1::USAGE_BOTH, 48, 32), (void)m,
               "shard.row_offset", "a multiple of 32", "48");
  // A rotation may span several blocks, and square blocks extend in both
  // directions.
  EXPECT_WRONG(ShardOf(v1::FORMAT_NVFP4, kColumn, 64, 0),
               (o.mutable_rht()->set_columnwise(true),
                o.mutable_rht()->set_dimension(128)),
               "shard.row_offset", "a multiple of 128", "64");
  EXPECT_WRONG(
      ShardOf(v1::FORMAT_NVFP4, kRow, 10, 16),
      (o.mutable_rht()->set_rowwise(true), o.mutable_rht()->set_dimension(64)),
      "shard.column_offset", "a multiple of 64", "16");
  EXPECT_WRONG(ShardOf(v1::FORMAT_NVFP4_2D, kRow, 10, 16), (void)m,
               "shard.row_offset", "a multiple of 16", "10");
  EXPECT_WRONG(ShardOf(v1::FORMAT_NVFP4_2D, kColumn, 16, 10), (void)m,
               "shard.column_offset", "a multiple of 16", "10");
  // The end of a shard is also a cut, unless it is the end of the whole tensor.
  EXPECT_WRONG(ShardOf(v1::FORMAT_NVFP4_2D, kColumn, 0, 0, 80),
               m.mutable_tensor()->set_shape(1, 40), "shard.total_columns",
               "40, or column_offset + K a multiple of 16", "80");
  EXPECT_THAT(Parse(ShardOf(v1::FORMAT_NVFP4_2D, kColumn, 0, 16, 80)), IsOk());
  // A group is a separate tensor and may begin at any row.
  v1::QuantizeRequest grouped = ShardOf(v1::FORMAT_NVFP4, kColumn, 10, 0);
  for (const int64_t rows : {10, 30})
    grouped.mutable_options()->mutable_splits()->add_rows(rows);
  EXPECT_THAT(Parse(grouped), IsOk());
}

// Lists have a separate size limit.
TEST(ReadQuantize, AcceptsLongLists) {
  v1::QuantizeRequest m = Of(v1::FORMAT_FP8_E4M3);
  m.mutable_options()->add_scale(1);
  m.mutable_options()->mutable_history()->mutable_amax()->Resize(65536, 1);
  EXPECT_THAT(Parse(m), IsOk());
  // An amax for each row of a large tensor.
  m = Quantize();
  m.mutable_tensor()->set_shape(0, 262144);
  m.mutable_tensor()->set_shape(1, 32);
  m.mutable_options()->mutable_form()->set_row_scaled(true);
  m.mutable_options()->mutable_given_amax()->mutable_rowwise_values()->Resize(
      262144, 1);
  m.set_payload(std::string(262144 * 64, '\1'));
  EXPECT_THAT(Parse(m), IsOk());
  m.clear_payload();
  const std::string bytes = m.SerializeAsString();
  const std::string_view whole = bytes;
  EXPECT_THAT(ParseDescribeRequest(absl::MakeSpan(&whole, 1)), IsOk());
}

}  // namespace
}  // namespace quantd::wire
