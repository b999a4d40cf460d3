// Tests of results made from replies: groups, statistics, and the refusal of
// replies with other parts than requested.
#include "quantd/result.h"

#include "tests/client/calls.h"

namespace quantd {
namespace {

using testing::ElementsAre;

TEST(Result, ViewsGroups) {
  FakeServer server;
  const auto client = Connect(server.target());
  Input in({48, 32});
  QuantizeOptions o = Nvfp4(Usage::kBoth);
  o.splits = {16, 0, 32};
  o.dbias = true;
  o.dbias_dtype = DType::kF32;
  const auto result = client->Quantize(in.desc, in.data, o);
  ASSERT_THAT(result, IsOk());
  const std::vector<int64_t> splits = *o.splits;
  for (const TensorSpec& part : result->parts()) {
    ASSERT_EQ(part.group_offsets.size(), 4u) << Name(part.kind);
    size_t total = 0;
    for (size_t g = 0; g < 3; ++g) {
      QuantizeOptions alone = o;
      alone.splits.reset();
      const auto plan =
          MakeQuantizePlan({DType::kBF16, {splits[g], 32}}, alone);
      ASSERT_THAT(plan, IsOk());
      const auto bytes = result->bytes(part.kind, g);
      ASSERT_EQ(bytes.size(), plan->output(part.kind)->size)
          << Name(part.kind) << " of group " << g;
      if (!bytes.empty()) {
        EXPECT_EQ(bytes.data(), result->bytes(part.kind).data() + total);
      }
      total += bytes.size();
    }
    EXPECT_EQ(total, part.size);
    EXPECT_TRUE(result->bytes(part.kind, 3).empty());
  }
  EXPECT_THAT(result->amaxes(TensorKind::kRowwiseAmax), ElementsAre(1, 1, 1));
  EXPECT_FALSE(result->amax(TensorKind::kRowwiseAmax).has_value());
  EXPECT_TRUE(result->amaxes(TensorKind::kRowwiseData).empty());
  EXPECT_TRUE(result->bytes(TensorKind::kAmax, 0).empty());
  // A result without splits has no groups.
  const auto whole = client->Quantize(in.desc, in.data, Nvfp4());
  ASSERT_THAT(whole, IsOk());
  EXPECT_TRUE(whole->bytes(TensorKind::kRowwiseData, 0).empty());
}

// The offsets of the groups' parts alone exceed what a request may have beside
// its payload.
TEST(Result, SupportsTheLargestNumberOfGroups) {
  FakeServer server;
  const auto client = Connect(server.target());
  Input in({static_cast<int64_t>(kMaxGroups), 16});
  QuantizeOptions o = Nvfp4(Usage::kBoth);
  o.splits.emplace(kMaxGroups, 1);
  const auto result = client->Quantize(in.desc, in.data, o);
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->bytes(TensorKind::kRowwiseData, kMaxGroups - 1).size(), 8u);
  EXPECT_EQ(result->amaxes(TensorKind::kColumnwiseAmax).size(), kMaxGroups);
  EXPECT_THAT(client->DescribeQuantize(in.desc, o), IsOk());
}

TEST(Result, ViewsGroupsOfRowAmaxes) {
  FakeServer server;
  const auto client = Connect(server.target());
  Input in({48, 32});
  QuantizeOptions o = Nvfp4(Usage::kBoth);
  o.splits = {16, 0, 32};
  o.form.row_scaled = true;
  const auto result = client->Quantize(in.desc, in.data, o);
  ASSERT_THAT(result, IsOk());
  // Rowwise there is an amax for each row of the group; columnwise, for each
  // column in each group.
  EXPECT_EQ(result->bytes(TensorKind::kRowwiseAmax, 0).size(), 64u);
  EXPECT_EQ(result->bytes(TensorKind::kRowwiseAmax, 1).size(), 0u);
  EXPECT_EQ(result->bytes(TensorKind::kRowwiseAmax, 2).size(), 128u);
  for (size_t g = 0; g < 3; ++g) {
    EXPECT_EQ(result->bytes(TensorKind::kColumnwiseAmax, g).size(), 128u);
  }
  RhtAmaxOptions amax;
  amax.rowwise = amax.columnwise_rht = true;
  amax.domain = AmaxDomain::kRow;
  amax.splits = o.splits;
  amax.rht_dimension = 32;
  const auto maxima = client->RhtAmax(in.desc, in.data, amax);
  ASSERT_THAT(maxima, IsOk());
  EXPECT_EQ(server.last_rht_amax().options().domain(), v1::AMAX_DOMAIN_ROW);
  EXPECT_EQ(server.last_rht_amax().options().rht().dimension(), 32u);
  EXPECT_EQ(server.last_rht_amax().options().rht().sign_mask(),
            "\xE8\xD7\xE8\xD7");
  EXPECT_THAT(server.last_rht_amax().options().splits().rows(),
              ElementsAre(16, 0, 32));
  EXPECT_EQ(maxima->amaxes(TensorKind::kRowwiseAmax).size(), 48u);
  EXPECT_EQ(maxima->bytes(TensorKind::kRowwiseAmax, 2).size(), 128u);
  EXPECT_EQ(maxima->bytes(TensorKind::kColumnwiseRhtAmax, 1).size(), 128u);
}

TEST(Result, HasStatistics) {
  FakeServer server;
  const auto client = Connect(server.target());
  Input in({32, 64});
  QuantizeOptions o;
  o.format = Format::kMxfp8E4M3;
  o.usage = Usage::kBoth;
  EXPECT_FALSE(client->Quantize(in.desc, in.data, o)
                   ->statistics(Usage::kColumnwise)
                   .has_value());
  o.statistics = true;
  const auto result = client->Quantize(in.desc, in.data, o);
  ASSERT_THAT(result, IsOk());
  // The fake server reports columnwise statistics only.
  EXPECT_FALSE(result->statistics(Usage::kRowwise).has_value());
  const auto& s = result->statistics(Usage::kColumnwise);
  ASSERT_TRUE(s.has_value());
  EXPECT_EQ(s->elements, 7u);
  EXPECT_EQ(s->clipped, 2u);
  EXPECT_EQ(s->flushed, 3u);
  EXPECT_EQ(s->max_error, 0.5f);
  EXPECT_DOUBLE_EQ(s->sqnr_db(), 20.0);
}

}  // namespace
}  // namespace quantd
