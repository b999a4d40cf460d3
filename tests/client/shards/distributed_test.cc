// Tests that data, scales and amax of shards are byte for byte those of the
// whole tensor.
#include "quantd/distributed.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/plan/convert_scales.h"
#include "tests/client/shards/shards.h"

namespace quantd {
namespace {

TEST_F(Distributed, Nvfp4ByRowsAndByColumns) {
  const Whole whole({200, 256});
  ExpectWhole(whole, Of(Format::kNvfp4), {64, 144}, {});
  ExpectWhole(whole, Of(Format::kNvfp4), {}, {48, 160});
  ExpectWhole(whole, Of(Format::kNvfp4), {96}, {128});
  // Rowwise data alone may be cut at any row.
  ExpectWhole(whole, Of(Format::kNvfp4, Usage::kRowwise), {1, 77}, {});
  ExpectWhole(whole, Of(Format::kNvfp4, Usage::kColumnwise), {16}, {3, 7});
}

TEST_F(Distributed, Nvfp4WithRotation) {
  const Whole whole({200, 256});
  QuantizeOptions o = Of(Format::kNvfp4);
  o.rht = {true, true, 16, std::nullopt};
  ExpectWhole(whole, o, {48, 144}, {});
  ExpectWhole(whole, o, {}, {64, 96});
  o.rht.rowwise = false;
  ExpectWhole(whole, o, {48, 144}, {16});
}

TEST_F(Distributed, EmptyShardsContributeNothing) {
  const Whole whole({64, 64});
  QuantizeOptions o = Of(Format::kNvfp4);
  o.rht = {true, true, 16, std::nullopt};
  ExpectWhole(whole, o, {32, 32, 64}, {});
  ExpectWhole(whole, o, {}, {0, 64});
  const Shard none{64, 0, 0, 64, {}};
  const auto amax = ShardAmax(*clients_[1], whole.desc, none, o);
  ASSERT_THAT(amax, IsOk());
  EXPECT_THAT(amax->rowwise, testing::ElementsAre(0.0f));
  EXPECT_THAT(amax->columnwise, testing::ElementsAre(0.0f));
}

// Follows the steps of quantd/distributed.h, for processes that have one shard
// each.
TEST_F(Distributed, StepByStep) {
  const Whole whole({96, 64});
  QuantizeOptions o = Of(Format::kNvfp4);
  o.rht.columnwise = true;
  const auto expected = clients_[0]->Quantize(whole.desc, whole.bytes(), o);
  ASSERT_THAT(expected, IsOk());
  std::vector<Piece> pieces;
  for (const int64_t row : {0, 32, 64}) {
    pieces.emplace_back(whole, row, 32, 0, 64);
  }
  CopyAmax reduced{{0}, {0}};
  for (int i = 0; i < kServers; ++i) {
    const auto amax = ShardAmax(*clients_[i], whole.desc, pieces[i].shard, o);
    ASSERT_THAT(amax, IsOk());
    reduced.rowwise[0] = std::fmax(reduced.rowwise[0], amax->rowwise[0]);
    reduced.columnwise[0] =
        std::fmax(reduced.columnwise[0], amax->columnwise[0]);
  }
  EXPECT_NE(reduced.rowwise[0], reduced.columnwise[0]);
  for (int i = 0; i < kServers; ++i) {
    const auto part =
        QuantizeShard(*clients_[i], whole.desc, pieces[i].shard, o, reduced);
    ASSERT_THAT(part, IsOk());
    ExpectPart(whole, o, *expected, pieces[i].shard, *part);
  }
  // A reduction provided by the caller.
  int asked = 0;
  std::vector<PlacedShard> shards;
  for (const Piece& p : pieces) shards.push_back({clients_[0].get(), p.shard});
  const auto parts = QuantizeShards(whole.desc, shards, o,
                                    [&](absl::Span<const float> amaxes) {
                                      ++asked;
                                      EXPECT_EQ(amaxes.size(), 3u);
                                      return 2 * LargestAmax(amaxes);
                                    });
  ASSERT_THAT(parts, IsOk());
  EXPECT_EQ(asked, 2);
  EXPECT_EQ((*parts)[0].amax(TensorKind::kRowwiseAmax), 2 * reduced.rowwise[0]);
}

TEST_F(Distributed, RefusesUnsupportedCutsAndOptions) {
  const Whole whole({128, 256});
  const auto field = [&](const QuantizeOptions& o, int64_t row, int64_t rows,
                         int64_t column, int64_t cols) {
    const Piece p(whole, std::clamp<int64_t>(row, 0, 64), 1, column % 128, 1);
    Shard shard{row, column, rows, cols, p.shard.input};
    return FieldOf(ShardAmax(*clients_[0], whole.desc, shard, o).status());
  };
  QuantizeOptions o = Of(Format::kNvfp4);
  EXPECT_EQ(field(o, 8, 120, 0, 256), "shard.row");
  EXPECT_EQ(field(o, 0, 24, 0, 256), "shard.row");
  EXPECT_EQ(field(o, 0, 128, 16, 24), "shard.column");
  EXPECT_EQ(field(o, 64, 128, 0, 256), "shard.row");
  EXPECT_EQ(field(o, -16, 16, 0, 256), "shard.row");
  o.rht = {false, true, 64, std::nullopt};
  EXPECT_EQ(field(o, 16, 112, 0, 256), "shard.row");
  EXPECT_EQ(field(Of(Format::kFp8SquareE4M3, Usage::kRowwise), 64, 64, 0, 256),
            "shard.row");
  EXPECT_EQ(field(Of(Format::kMxfp8E4M3), 0, 128, 16, 240), "shard.column");
  o = Of(Format::kNvfp4);
  o.rowwise_amax = {1};
  EXPECT_EQ(field(o, 0, 64, 0, 256), "given_amax");
  o = Of(Format::kNvfp4);
  o.splits = {128};
  EXPECT_EQ(field(o, 0, 64, 0, 256), "splits");
  o = Of(Format::kFp8E4M3);
  o.fp8.scale = {1};
  o.fp8.history = HistoryOptions{{1}};
  EXPECT_EQ(field(o, 0, 64, 0, 256), "history");
}

TEST_F(Distributed, LargestKeepsNan) {
  EXPECT_EQ(LargestAmax({}), 0.0f);
  EXPECT_EQ(LargestAmax({1.0f, 3.0f, 2.0f}), 3.0f);
  EXPECT_TRUE(std::isnan(LargestAmax({1.0f, std::nanf(""), 2.0f})));
}

TEST_F(Distributed, EstimatedAmax) {
  const Whole whole({200, 256});
  QuantizeOptions o = Of(Format::kNvfp4);
  o.rht.columnwise = true;
  o.nvfp4.amax_estimation_scale = 2.0f;
  ExpectWhole(whole, o, {64, 144}, {});
}

TEST_F(Distributed, StochasticRounding) {
  const Whole whole({200, 256});
  for (const Format format :
       {Format::kNvfp4, Format::kNvfp4Square, Format::kMxfp4}) {
    SCOPED_TRACE(Name(format));
    QuantizeOptions o = Of(format);
    o.rounding = Rounding::kStochastic;
    o.stochastic = {0x123456789ABCDEFu, 5};
    o.shard = {32, 64, 1024};
    ExpectWhole(whole, o, {64, 160}, {});
    ExpectWhole(whole, o, {}, {96});
    ExpectWhole(whole, o, {64}, {32, 160});
  }
}

TEST_F(Distributed, RowScaled) {
  const Whole whole({100, 256});
  QuantizeOptions o = Of(Format::kNvfp4);
  o.form.row_scaled = true;
  ExpectWhole(whole, o, {32, 80}, {});
  ExpectWhole(whole, o, {}, {64});
  ExpectWhole(whole, o, {48}, {64, 128});
}

TEST_F(Distributed, EveryFormat) {
  const Whole whole({300, 384});
  for (const FormatSpec& f : kFormats) {
    SCOPED_TRACE(f.name);
    ExpectWhole(whole, Of(f.format), {128, 256}, {});
    ExpectWhole(whole, Of(f.format), {}, {128, 256});
    if (f.options & kOptSwizzled) {
      QuantizeOptions o = Of(f.format);
      o.form.scale_layout = Layout::kSwizzled;
      ExpectWhole(whole, o, {128}, {256});
    }
  }
}

TEST_F(Distributed, DelayedScaling) {
  const Whole whole({100, 64});
  QuantizeOptions o = Of(Format::kFp8E4M3);
  o.fp8.scale = {16};
  Piece top(whole, 0, 37, 0, 64);
  const auto amax = ShardAmax(*clients_[0], whole.desc, top.shard, o);
  ASSERT_THAT(amax, IsOk());
  EXPECT_TRUE(amax->rowwise.empty());
  const auto part =
      QuantizeShard(*clients_[1], whole.desc, top.shard, o, *amax);
  ASSERT_THAT(part, IsOk());
  EXPECT_EQ(part->as<float>(TensorKind::kRowwiseScale)[0], 1.0f / 16);
}

}  // namespace
}  // namespace quantd
