// Tests that every option gets from the caller into the request, with a fake
// server.
#include "proto/messages.h"
#include "proto/wire.h"
#include "quantd/client.h"
#include "tests/client/calls.h"
#include "tests/kernels/device/plan_rows.h"

namespace quantd {
namespace {

using testing::ElementsAre;

QuantizeOptions Of(Format format, Usage usage = Usage::kBoth) {
  QuantizeOptions o;
  o.format = format;
  o.usage = usage;
  return o;
}

// Plans for 32 x 64 with options that plan_rows leaves at their defaults.
std::vector<Plan> MorePlans() {
  std::vector<Plan> plans;
  const auto add = [&](Format format, auto change) {
    QuantizeOptions o = Of(format);
    change(o);
    plans.push_back(*MakeQuantizePlan({DType::kBF16, {32, 64}}, o));
  };
  add(Format::kNvfp4, [](auto& o) {
    o.rht = {true, true, 64, RandomSignMask(3, 64)};
    o.non_finite = NonFinite::kPropagate;
    o.rounding = Rounding::kStochastic;
    o.stochastic = {~uint64_t{0}, uint64_t{1} << 63};
    o.shard = {64, 128, 1024};
  });
  add(Format::kNvfp4Square, [](auto& o) {
    o.nvfp4.four_over_six = FourOverSix::kMae;
    o.nvfp4.fast_error = o.dbias = o.want_amax = true;
    o.dbias_dtype = DType::kF32;
    o.splits = {16, 8};
    o.partial_splits = true;
  });
  add(Format::kFp8E4M3, [](auto& o) {
    o.fp8.scale = {0.25f};
    o.fp8.history = HistoryOptions{{1, 2, 3}, HistoryRule::kMostRecent, -3};
  });
  return plans;
}

// Compares the request that is sent with RequestHead's; echo_test of
// tests/proto shows that this has every option.
TEST(Options, AllReachTheServer) {
  FakeServer server;
  const auto client = Connect(server.target());
  int served = 0;
  const auto expect = [&](const Plan& plan) {
    if (plan.input_bytes() > (1 << 20)) return;
    const auto& options = std::get<QuantizeOptions>(plan.options());
    const std::vector<std::byte> input(plan.input_bytes());
    const auto head = wire::RequestHead(plan, input.size());
    ASSERT_THAT(head, IsOk());
    v1::QuantizeRequest request;
    ASSERT_TRUE(
        request.ParseFromString(*head + std::string(input.size(), '\0')));
    // A server refuses shards that are cut inside a block.
    const bool whole = client->Quantize(plan.tensor(), input, options).ok();
    EXPECT_EQ(server.last_request().SerializeAsString(),
              request.SerializeAsString());
    // DescribeQuantize sends a request without a payload.
    request.clear_payload();
    EXPECT_EQ(client->DescribeQuantize(plan.tensor(), options).ok(), whole);
    EXPECT_EQ(server.last_request().SerializeAsString(),
              request.SerializeAsString());
    served += whole;
  };
  ForQuantizeRows(1, [&](const QuantizeRow& row) {
    SCOPED_TRACE(fmt::format("{} {}", row.format.name, row.settings));
    expect(row.plan);
  });
  for (const Plan& plan : MorePlans()) expect(plan);
  EXPECT_GT(served, 500);
}

TEST(Options, SingleAmaxUsesTheFieldOfOlderServers) {
  FakeServer server;
  const auto client = Connect(server.target());
  Input in({32, 64});
  QuantizeOptions o = Nvfp4(Usage::kBoth);
  o.rowwise_amax = {2};
  ASSERT_THAT(client->Quantize(in.desc, in.data, o), IsOk());
  const v1::GivenAmax one = server.last_request().options().given_amax();
  EXPECT_EQ(one.rowwise(), 2.0f);
  EXPECT_FALSE(one.has_columnwise());  // no amax was given for it
  EXPECT_EQ(one.rowwise_values_size(), 0);
  o.splits = {8, 24};
  o.rowwise_amax = {2, 3};
  ASSERT_THAT(client->Quantize(in.desc, in.data, o), IsOk());
  const v1::GivenAmax two = server.last_request().options().given_amax();
  EXPECT_FALSE(two.has_rowwise());
  EXPECT_THAT(two.rowwise_values(), ElementsAre(2.0f, 3.0f));
  EXPECT_EQ(two.columnwise_values_size(), 0);
}

TEST(Client, DecodesEveryFormat) {
  FakeServer server;
  const auto client = Connect(server.target());
  const TensorDesc desc{DType::kUnspecified, {32, 64}};
  const std::vector<float> amax = {1, 2};
  for (const FormatSpec& f : kFormats) {
    for (const bool grouped : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", f.name, grouped));
      DequantizeOptions o;
      o.format = f.format;
      o.usage = Usage::kColumnwise;
      o.output = DType::kF32;
      if (grouped) o.splits = {8, 24};
      const auto plan = MakeDequantizePlan(desc, o);
      ASSERT_THAT(plan, IsOk());
      const std::vector<std::byte> data(plan->inputs()[0].size);
      const std::vector<std::byte> scale(plan->inputs()[1].size);
      QuantizedBytes copy{data, scale, {}};
      const bool has_amax = f.scaling == Scaling::kNvfp4;
      EXPECT_EQ(client->Dequantize(desc, copy, o).ok(), !has_amax);
      // A format without an amax does not read one.
      copy.amax = absl::MakeSpan(amax.data(), grouped ? 2 : 1);
      ASSERT_THAT(client->Dequantize(desc, copy, o), IsOk());
      EXPECT_EQ(
          server.last_dequantize().payload().size(),
          data.size() + scale.size() + (has_amax ? copy.amax.size() * 4 : 0));
      EXPECT_EQ(server.last_dequantize().options().has_splits(), grouped);
    }
  }
  DequantizeOptions o;
  o.format = Format::kNvfp4;
  o.output = DType::kBF16;
  o.form.row_scaled = true;
  const auto plan = MakeDequantizePlan(desc, o);
  const std::vector<std::byte> data(plan->inputs()[0].size);
  const std::vector<std::byte> scale(plan->inputs()[1].size);
  EXPECT_EQ(FieldOf(client->Dequantize(desc, {data, scale, amax}, o).status()),
            "rowwise_amax");
}

TEST(Client, RequiresAlignedDestinations) {
  FakeServer server;
  const auto client = Connect(server.target());
  Input in({16, 32});
  alignas(4) std::byte room[8];
  CallOptions call;
  call.into = {{TensorKind::kRowwiseAmax, absl::MakeSpan(room + 1, 4)}};
  EXPECT_EQ(FieldOf(client->Quantize(in.desc, in.data, Nvfp4(), call).status()),
            "into[0]");
  call.into = {{TensorKind::kRowwiseAmax, absl::MakeSpan(room + 4, 4)}};
  EXPECT_THAT(client->Quantize(in.desc, in.data, Nvfp4(), call), IsOk());
}

}  // namespace
}  // namespace quantd
