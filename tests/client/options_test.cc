// Tests that every option gets from the caller into the request, with a fake
// server.
#include "quantd/client.h"
#include "tests/client/calls.h"

namespace quantd {
namespace {

using testing::ElementsAre;

QuantizeOptions Of(Format format, Usage usage = Usage::kBoth) {
  QuantizeOptions o;
  o.format = format;
  o.usage = usage;
  return o;
}

void ExpectSame(const CopyForm& a, const CopyForm& b) {
  EXPECT_EQ(a.scale_layout, b.scale_layout);
  EXPECT_EQ(a.compact_scales, b.compact_scales);
  EXPECT_EQ(a.row_scaled, b.row_scaled);
  EXPECT_EQ(a.scale_256, b.scale_256);
}

void ExpectSame(const QuantizeOptions& a, const QuantizeOptions& b) {
  EXPECT_EQ(a.format, b.format);
  EXPECT_EQ(a.usage, b.usage);
  EXPECT_EQ(a.rht.rowwise, b.rht.rowwise);
  EXPECT_EQ(a.rht.columnwise, b.rht.columnwise);
  EXPECT_EQ(a.rht.dimension, b.rht.dimension);
  EXPECT_EQ(a.rht.sign_mask, b.rht.sign_mask);
  EXPECT_EQ(a.non_finite, b.non_finite);
  EXPECT_EQ(a.rowwise_amax, b.rowwise_amax);
  EXPECT_EQ(a.columnwise_amax, b.columnwise_amax);
  ExpectSame(a.form, b.form);
  EXPECT_EQ(a.rounding, b.rounding);
  EXPECT_EQ(a.stochastic.seed, b.stochastic.seed);
  EXPECT_EQ(a.stochastic.seed_offset, b.stochastic.seed_offset);
  EXPECT_EQ(a.shard.row_offset, b.shard.row_offset);
  EXPECT_EQ(a.shard.column_offset, b.shard.column_offset);
  EXPECT_EQ(a.shard.total_columns, b.shard.total_columns);
  EXPECT_EQ(a.nvfp4.four_over_six, b.nvfp4.four_over_six);
  EXPECT_EQ(a.nvfp4.fast_error, b.nvfp4.fast_error);
  EXPECT_EQ(a.nvfp4.amax_estimation_scale, b.nvfp4.amax_estimation_scale);
  EXPECT_EQ(a.fp8.epsilon, b.fp8.epsilon);
  EXPECT_EQ(a.fp8.power_of_two, b.fp8.power_of_two);
  EXPECT_EQ(a.fp8.scale, b.fp8.scale);
  ASSERT_EQ(a.fp8.history.has_value(), b.fp8.history.has_value());
  if (a.fp8.history) {
    EXPECT_EQ(a.fp8.history->amax, b.fp8.history->amax);
    EXPECT_EQ(a.fp8.history->rule, b.fp8.history->rule);
    EXPECT_EQ(a.fp8.history->margin, b.fp8.history->margin);
  }
  EXPECT_EQ(a.mx.scale_rule, b.mx.scale_rule);
  EXPECT_EQ(a.splits, b.splits);
  EXPECT_EQ(a.partial_splits, b.partial_splits);
  EXPECT_EQ(a.want_amax, b.want_amax);
  EXPECT_EQ(a.dbias, b.dbias);
  EXPECT_EQ(a.dbias_dtype, b.dbias_dtype);
  EXPECT_EQ(a.statistics, b.statistics);
  EXPECT_EQ(a.profile, b.profile);
}

// Returns options for a tensor of 32 x 64. Every field differs from its default
// in at least one of them.
std::vector<QuantizeOptions> Requests() {
  std::vector<QuantizeOptions> all;
  const auto add = [&](Format format, auto change) {
    QuantizeOptions o = Of(format);
    change(o);
    all.push_back(o);
  };
  for (const FormatSpec& f : kFormats) add(f.format, [](auto&) {});
  for (const int dimension : kRhtDimensions) {
    add(Format::kNvfp4, [&](auto& o) {
      o.rht = {dimension <= 64, true, dimension,
               RandomSignMask(dimension, dimension)};
      o.nvfp4.amax_estimation_scale = 2.0f;
      o.non_finite = NonFinite::kPropagate;
    });
  }
  add(Format::kNvfp4, [](auto& o) {
    o.usage = Usage::kRowwise;
    o.form.row_scaled = true;
    o.form.scale_256 = true;
    o.nvfp4.four_over_six = FourOverSix::kMse;
    o.nvfp4.fast_error = true;
    o.rowwise_amax.assign(32, 2.5f);
  });
  add(Format::kNvfp4Square, [](auto& o) {
    o.form.compact_scales = true;
    o.rounding = Rounding::kStochastic;
    o.stochastic = {~uint64_t{0}, uint64_t{1} << 63};
    o.shard = {48, 160, 1024};
    o.dbias = true;
    o.dbias_dtype = DType::kF32;
    o.want_amax = true;
    o.statistics = true;
  });
  add(Format::kMxfp8E5M2, [](auto& o) {
    o.mx.scale_rule = ScaleRule::kEven;
    o.form.scale_layout = Layout::kSwizzled;
    o.rht = {true, true, 32, std::nullopt};
    o.splits = {0, 20, 0, 12};
    o.dbias = true;
  });
  add(Format::kFp8E4M3, [](auto& o) {
    o.fp8.scale = {0.25f};
    o.fp8.history = HistoryOptions{{1, 2, 3}, HistoryRule::kMostRecent, -3};
  });
  add(Format::kMxfp4, [](auto& o) {
    o.usage = Usage::kRowwise;
    o.profile = Profile::kTorchao018;
    o.mx.scale_rule = ScaleRule::kUp;
  });
  add(Format::kFp8ChannelE4M3, [](auto& o) {
    o.usage = Usage::kRowwise;
    o.profile = Profile::kCompressedTensors020Cuda;
  });
  add(Format::kFp8E4M3, [](auto& o) {
    o.fp8.epsilon = 1e-6f;
    o.fp8.power_of_two = true;
  });
  add(Format::kFp8E5M2, [](auto& o) {
    o.splits = {16, 16};
    o.fp8.scale = {2, 4};
    o.fp8.history = HistoryOptions{{1, 2, 3, 4, 5, 6}};
  });
  add(Format::kNvfp4, [](auto& o) {
    o.splits = {16, 8};
    o.partial_splits = true;
    o.dbias = true;
  });
  add(Format::kFp8E5M2, [](auto& o) {
    o.splits = {16, 16};
    o.rowwise_amax = {1, 2};
    o.columnwise_amax = {3, 4};
  });
  add(Format::kFp8SquareE4M3, [](auto& o) { o.fp8.power_of_two = false; });
  add(Format::kNvfp4, [](auto& o) {
    o.usage = Usage::kNone;
    o.want_amax = true;
  });
  return all;
}

TEST(Options, AllReachTheServer) {
  FakeServer server;
  const auto client = Connect(server.target());
  Input in({32, 64});
  const auto requests = Requests();
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE(fmt::format("request {}, {}", i, Name(requests[i].format)));
    const auto plan = MakeQuantizePlan(in.desc, requests[i]);
    ASSERT_THAT(plan, IsOk());
    const auto result = client->Quantize(in.desc, in.data, requests[i]);
    ASSERT_THAT(result, IsOk());
    QuantizeOptions sent = std::get<QuantizeOptions>(plan->options());
    if (!sent.rht.rowwise && !sent.rht.columnwise) {
      // The rotation of data that is not requested is not sent.
      sent.rht = {};
    }
    ExpectSame(OptionsOf(server.last_request()), sent);
    ASSERT_EQ(result->parts().size(), plan->outputs().size());
    for (const TensorSpec& spec : plan->outputs()) {
      EXPECT_EQ(result->bytes(spec.kind).size(), spec.size) << Name(spec.kind);
    }
    // DescribeQuantize sends a request without a payload.
    const auto described = client->DescribeQuantize(in.desc, requests[i]);
    ASSERT_THAT(described, IsOk());
    ExpectSame(OptionsOf(server.last_request()), sent);
    EXPECT_TRUE(server.last_request().payload().empty());
    ASSERT_EQ(described->parts.size(), plan->outputs().size());
    for (size_t k = 0; k < described->parts.size(); ++k) {
      const TensorSpec& there = described->parts[k];
      const TensorSpec& here = plan->outputs()[k];
      EXPECT_EQ(there.kind, here.kind);
      EXPECT_EQ(there.dtype, here.dtype);
      EXPECT_EQ(there.layout, here.layout);
      EXPECT_EQ(there.shape, here.shape);
      EXPECT_EQ(there.offset, here.offset);
      EXPECT_EQ(there.size, here.size);
      EXPECT_EQ(there.group_offsets, here.group_offsets);
    }
    EXPECT_EQ(described->input_bytes, in.data.size());
    EXPECT_EQ(described->output_bytes, plan->output_bytes());
    EXPECT_EQ(described->scratch_bytes, plan->scratch_bytes());
  }
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

TEST(Options, InvalidOnesAreRefusedBeforeSending) {
  FakeServer server;
  const auto client = Connect(server.target());
  Input in({32, 64});
  const auto field = [&](Format format, auto change) {
    QuantizeOptions o = Of(format);
    change(o);
    const std::string quantize =
        FieldOf(client->Quantize(in.desc, in.data, o).status());
    EXPECT_EQ(FieldOf(client->DescribeQuantize(in.desc, o).status()), quantize);
    return quantize;
  };
  EXPECT_EQ(field(Format::kMxfp8E4M3,
                  [](auto& o) { o.rounding = Rounding::kStochastic; }),
            "rounding");
  EXPECT_EQ(field(Format::kNvfp4, [](auto& o) { o.splits = {31}; }), "splits");
  EXPECT_EQ(field(Format::kFp8E4M3, [](auto& o) { o.fp8.scale = {0}; }),
            "scale");
  // The list of amaxes exceeds what a server accepts beside the payload.
  const int64_t rows = (4 << 18) + 1;
  Input tall({rows, 16});
  QuantizeOptions o = Of(Format::kNvfp4, Usage::kRowwise);
  o.form.row_scaled = true;
  o.rowwise_amax.assign(rows, 1.0f);
  EXPECT_EQ(FieldOf(client->Quantize(tall.desc, tall.data, o).status()),
            "message");
  EXPECT_EQ(server.calls(), 0);
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
  o.form = {Layout::kSwizzled, false, true, true};
  const auto plan = MakeDequantizePlan(desc, o);
  const std::vector<std::byte> data(plan->inputs()[0].size);
  const std::vector<std::byte> scale(plan->inputs()[1].size);
  const std::vector<float> each(32, 1.0f);
  ASSERT_THAT(client->Dequantize(desc, {data, scale, each}, o), IsOk());
  const v1::CopyForm form = server.last_dequantize().options().form();
  EXPECT_EQ(form.scale_layout(), v1::LAYOUT_SWIZZLED);
  EXPECT_TRUE(form.row_scaled());
  EXPECT_TRUE(form.scale_256());
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
