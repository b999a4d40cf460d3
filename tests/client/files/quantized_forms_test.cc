// Tests of Quantizer's options, and of QuantizedTensor in every format: shapes,
// layouts, groups and files.
#include <set>

#include "client/files/quantized_file.h"
#include "kernels/plan/convert_scales.h"
#include "quantd/quantizer.h"
#include "tests/client/calls.h"
#include "tests/client/temp_dir.h"

namespace quantd {
namespace {

using testing::ElementsAre;

QuantizerConfig ConfigOf(Format format, Usage usage = Usage::kBoth) {
  QuantizerConfig config;
  config.options.format = format;
  config.options.usage = usage;
  return config;
}

class Forms : public testing::Test {
 protected:
  absl::StatusOr<QuantizedTensor> Make(const QuantizerConfig& config,
                                       const Input& in) {
    return Quantizer(client_, config).Quantize(in.desc, in.data);
  }

  FakeServer server_;
  const std::shared_ptr<Client> client_ = Connect(server_.target());
  const TempDir dir_;
};

TEST_F(Forms, QuantizerPassesAllOptionsOn) {
  QuantizerConfig c;
  c.options.rht.dimension = 64;
  c.options.rht.columnwise = true;
  c.sign_seed = 9;
  c.options.nvfp4.amax_estimation_scale = kActivationEstimation;
  auto o = Quantizer(client_, c).options();
  ASSERT_THAT(o, IsOk());
  EXPECT_EQ(o->rht.sign_mask, RandomSignMask(9, 64));
  EXPECT_EQ(o->nvfp4.amax_estimation_scale, 2.0f);
  c.options.rht.sign_mask = kDefaultSignMask;
  EXPECT_EQ(FieldOf(Quantizer(client_, c).options().status()), "sign_seed");

  QuantizerConfig d;
  d.options.format = Format::kFp8E4M3;
  d.options.dbias = true;
  d.options.statistics = true;
  Quantizer delayed(client_, d);
  delayed.set_delayed_scaling(4, HistoryOptions{{1, 2}});
  o = delayed.options();
  ASSERT_THAT(o, IsOk());
  EXPECT_THAT(o->fp8.scale, ElementsAre(4.0f));
  EXPECT_EQ(o->fp8.history->amax.size(), 2u);
  Input in({32, 64});
  ASSERT_OK_AND_ASSIGN(const auto q, delayed.Quantize(in.desc, in.data));
  EXPECT_EQ(q.as<float>(TensorKind::kAmaxHistory).size(), 2u);
  EXPECT_EQ(q.as<float>(TensorKind::kNextScale)[0], 1.0f);
  EXPECT_EQ(q.part(TensorKind::kDbias)->dtype, DType::kBF16);
  EXPECT_TRUE(q.statistics(Usage::kColumnwise).has_value());
  EXPECT_EQ(q.rowwise()->scale_dtype, DType::kF32);
  EXPECT_EQ(q.rowwise()->scale.size(), 4u);

  QuantizerConfig mx;
  mx.options.format = Format::kMxfp4;
  mx.options.mx.scale_rule = ScaleRule::kFloor;
  mx.options.form.scale_layout = Layout::kSwizzled;
  ASSERT_OK_AND_ASSIGN(const auto m, Make(mx, in));
  EXPECT_EQ(m.rowwise()->scale_layout, Layout::kSwizzled);
  EXPECT_TRUE(m.rowwise()->amax.empty());
  EXPECT_EQ(m.options().mx.scale_rule, ScaleRule::kFloor);

  QuantizerConfig rows;
  rows.options.usage = Usage::kRowwise;
  rows.options.form.row_scaled = true;
  rows.options.nvfp4.four_over_six = FourOverSix::kMae;
  rows.options.form.scale_256 = true;
  ASSERT_OK_AND_ASSIGN(const auto r, Make(rows, in));
  EXPECT_EQ(r.rowwise()->amax.size(), 32u);
  EXPECT_THAT(r.Dequantize(*client_), IsOk());
  EXPECT_TRUE(server_.last_dequantize().options().form().scale_256());
  EXPECT_TRUE(server_.last_dequantize().options().form().row_scaled());

  // Requests only dbias, without quantized data.
  QuantizerConfig none;
  none.options.usage = Usage::kNone;
  none.options.dbias = true;
  ASSERT_OK_AND_ASSIGN(const auto b, Make(none, in));
  EXPECT_EQ(b.parts().size(), 1u);
  EXPECT_FALSE(b.rowwise().has_value());
  EXPECT_EQ(FieldOf(b.Dequantize(*client_).status()), "usage");
}

TEST_F(Forms, RetriesUseTheSeedOfTheFirstAttempt) {
  Input in({32, 64});
  QuantizerConfig c;
  c.options.rounding = Rounding::kStochastic;
  c.options.stochastic.seed_offset = 5;
  const Quantizer quantizer(client_, c);
  std::set<uint64_t> seeds;
  for (int i = 0; i < 4; ++i) {
    ASSERT_OK_AND_ASSIGN(const auto q, quantizer.Quantize(in.desc, in.data));
    EXPECT_EQ(server_.last_request().options().stochastic().seed(),
              q.options().stochastic.seed);
    EXPECT_EQ(server_.last_request().options().stochastic().seed_offset(), 5u);
    seeds.insert(q.options().stochastic.seed);
  }
  EXPECT_EQ(seeds.size(), 4u);
  // A retry uses the seed of the first attempt.
  server_.KeepRequests();
  server_.Script({Failure(grpc::StatusCode::UNAVAILABLE),
                  Failure(grpc::StatusCode::UNAVAILABLE)});
  ASSERT_OK_AND_ASSIGN(const auto q, quantizer.Quantize(in.desc, in.data));
  const auto tries = server_.requests();
  ASSERT_EQ(tries.size(), 3u);
  for (const v1::QuantizeRequest& r : tries) {
    EXPECT_EQ(r.options().stochastic().seed(), q.options().stochastic.seed);
  }
  c.options.stochastic.seed = 77;
  EXPECT_EQ(Quantizer(client_, c).options()->stochastic.seed, 77u);
  // Zero is a valid seed if none is to be drawn.
  c.options.stochastic.seed = 0;
  c.draw_seed = false;
  EXPECT_EQ(Quantizer(client_, c).options()->stochastic.seed, 0u);
  EXPECT_EQ(Quantizer(client_).options()->rounding, Rounding::kNearest);
  EXPECT_EQ(Quantizer(client_).options()->stochastic.seed, 0u);
}

// modelopt multiplies a block scale by the global one in fp32;
// compressed-tensors stores a divisor instead, and divides.
TEST_F(Forms, ReadAsALibraryWithTheSameParts) {
  Input in({4, 6, 32});
  QuantizerConfig c;
  c.options.usage = Usage::kRowwise;
  c.options.profile = Profile::kModelopt047;
  ASSERT_OK_AND_ASSIGN(const auto q, Make(c, in));
  ASSERT_OK_AND_ASSIGN(const auto other, q.ReadAs(Profile::kComfy0240));
  EXPECT_EQ(other.rowwise()->data.data(), q.rowwise()->data.data());
  EXPECT_THAT(other.Dequantize(*client_), IsOk());
  // te computes its global scale from the amax, which the tensor also has.
  EXPECT_THAT(q.ReadAs(Profile::kTe), IsOk());
  for (const Profile refused :
       {Profile::kCompressedTensors020, Profile::kDeepgemm}) {
    EXPECT_EQ(FieldOf(q.ReadAs(refused).status()), "profile");
  }
}

TEST_F(Forms, ReshapeKeepsTheLastDimension) {
  Input in({4, 6, 32});
  QuantizerConfig c;
  c.options.statistics = true;
  ASSERT_OK_AND_ASSIGN(const auto q, Make(c, in));
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{24, 32}, {2, 3, 4, 32}, {4, 6, 32}}) {
    ASSERT_OK_AND_ASSIGN(const auto r, q.Reshape(shape));
    EXPECT_EQ(r.shape(), shape);
    EXPECT_EQ(r.rowwise()->data.data(), q.rowwise()->data.data());
    EXPECT_EQ(r.columnwise()->data_shape, q.columnwise()->data_shape);
    EXPECT_TRUE(r.statistics(Usage::kColumnwise).has_value());
    EXPECT_THAT(r.Dequantize(*client_), IsOk());
  }
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{32, 24},
                                            {4, 5, 32},
                                            {24, 2, 16},
                                            {768},
                                            {},
                                            {-4, -6, 32},
                                            {4, 6, 32, 1}}) {
    EXPECT_EQ(FieldOf(q.Reshape(shape).status()), "shape");
  }
  // A vector is one row, and can only become another tensor of one row.
  Input vector({64});
  ASSERT_OK_AND_ASSIGN(const auto v,
                       Make(ConfigOf(Format::kNvfp4, Usage::kRowwise), vector));
  ASSERT_OK_AND_ASSIGN(const auto row, v.Reshape({1, 1, 64}));
  EXPECT_THAT(row.Reshape({64}), IsOk());
  EXPECT_FALSE(v.Reshape({2, 32}).ok());
  // With another flatten axis, Reshape keeps all dimensions of the columns.
  Input deep({4, 6, 32});
  deep.desc.flatten_axis = 1;
  ASSERT_OK_AND_ASSIGN(const auto d,
                       Make(ConfigOf(Format::kNvfp4, Usage::kRowwise), deep));
  EXPECT_THAT(d.Reshape({2, 2, 6, 32}), IsOk());
  EXPECT_FALSE(d.Reshape({24, 32}).ok());
  // An empty tensor can be reshaped, too.
  Input none({0, 32});
  ASSERT_OK_AND_ASSIGN(const auto empty, Make({}, none));
  EXPECT_THAT(empty.Reshape({3, 0, 32}), IsOk());
  EXPECT_FALSE(empty.Reshape({1, 32}).ok());
}

TEST_F(Forms, ScaleLayoutsRoundTrip) {
  for (const Format format : {Format::kNvfp4, Format::kNvfp4Square,
                              Format::kMxfp8E4M3, Format::kMxfp4}) {
    for (const bool grouped : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", Name(format), grouped));
      Input in({200, 224});
      const Quantizer quantizer(client_, ConfigOf(format));
      ASSERT_OK_AND_ASSIGN(
          const auto q,
          grouped ? quantizer.QuantizeGroups(in.desc, in.data, {70, 0, 130})
                  : quantizer.Quantize(in.desc, in.data));
      ASSERT_OK_AND_ASSIGN(const auto tiles,
                           q.ConvertScaleLayout(Layout::kSwizzled));
      EXPECT_EQ(tiles.options().form.scale_layout, Layout::kSwizzled);
      EXPECT_EQ(tiles.columnwise()->scale_layout, Layout::kSwizzled);
      EXPECT_EQ(tiles.rowwise()->data.data(), q.rowwise()->data.data());
      EXPECT_EQ(tiles.rowwise()->scale.size(), q.rowwise()->scale.size());
      EXPECT_EQ(tiles.size_bytes(), q.size_bytes());
      // The fake server's padding is nonzero; the conversion zeroes it.
      ASSERT_OK_AND_ASSIGN(const auto linear,
                           tiles.ConvertScaleLayout(Layout::kLinear));
      ASSERT_OK_AND_ASSIGN(const auto again,
                           linear.ConvertScaleLayout(Layout::kSwizzled));
      EXPECT_TRUE(
          BytesEq("rowwise", tiles.rowwise()->scale, again.rowwise()->scale));
      EXPECT_TRUE(BytesEq("columnwise", tiles.columnwise()->scale,
                          again.columnwise()->scale));
      EXPECT_EQ(linear.columnwise()->scale_shape, q.columnwise()->scale_shape);
      EXPECT_THAT(again.Dequantize(*client_), IsOk());
      if (grouped) continue;
      const FormatSpec& spec = *FindFormat(format);
      const auto form = [&](Layout layout) {
        return MakeCopyGeometry(spec, true, 200, 224, 0, layout, false);
      };
      const CopyGeometry a = form(Layout::kLinear);
      const CopyGeometry b = form(Layout::kSwizzled);
      for (int64_t l = 0; l < a.lines; ++l) {
        for (int64_t k = 0; k < a.blocks; ++k) {
          ASSERT_EQ(q.columnwise()->scale[ScaleIndex(a, l, k)],
                    tiles.columnwise()->scale[ScaleIndex(b, l, k)]);
        }
      }
    }
  }
  Input in({32, 128});
  QuantizerConfig c = ConfigOf(Format::kNvfp4Square);
  c.options.form.compact_scales = true;
  ASSERT_OK_AND_ASSIGN(const auto compact, Make(c, in));
  EXPECT_FALSE(compact.ConvertScaleLayout(Layout::kSwizzled).ok());
  ASSERT_OK_AND_ASSIGN(const auto fp8, Make(ConfigOf(Format::kFp8E4M3), in));
  EXPECT_FALSE(fp8.ConvertScaleLayout(Layout::kSwizzled).ok());
  EXPECT_THAT(fp8.ConvertScaleLayout(Layout::kLinear), IsOk());
  EXPECT_FALSE(fp8.ConvertScaleLayout(Layout::kUnspecified).ok());
}

TEST_F(Forms, GroupsAreSeparateTensors) {
  for (const FormatSpec& f : kFormats) {
    SCOPED_TRACE(f.name);
    Input in({2, 24, 64});
    QuantizerConfig c;
    c.options.format = f.format;
    c.options.dbias = true;
    const bool random = (f.options & kOptStochastic) != 0;
    if (random) c.options.rounding = Rounding::kStochastic;
    ASSERT_OK_AND_ASSIGN(
        const auto q,
        Quantizer(client_, c).QuantizeGroups(in.desc, in.data, {16, 0, 32}));
    ASSERT_EQ(q.groups(), 3u);
    for (size_t g = 0; g < 3; ++g) {
      ASSERT_OK_AND_ASSIGN(const auto one, q.group(g));
      EXPECT_EQ(one.shape(),
                (std::vector<int64_t>{(*q.options().splits)[g], 64}));
      EXPECT_EQ(one.groups(), 0u);
      const size_t amaxes = f.scaling == Scaling::kChannel
                                ? static_cast<size_t>(one.shape()[0])
                                : 1;
      EXPECT_EQ(one.rowwise()->amax.size(), HasAmax(f) ? amaxes : 0u);
      EXPECT_EQ(one.part(TensorKind::kDbias)->shape,
                (std::vector<int64_t>{64}));
      EXPECT_THAT(one.Dequantize(*client_), IsOk());
      EXPECT_THAT(one.DequantizeCopy(*client_, Usage::kColumnwise), IsOk());
    }
    // A row offset matters only for stochastic rounding.
    EXPECT_EQ(q.group(2)->options().shard.row_offset, random ? 16 : 0);
    EXPECT_EQ(q.group(2)->options().stochastic.seed,
              q.options().stochastic.seed);
    EXPECT_THAT(q.group(3), StatusIs(absl::StatusCode::kOutOfRange));
    ASSERT_OK_AND_ASSIGN(const auto decoded, q.Dequantize(*client_));
    EXPECT_EQ(decoded.bytes(TensorKind::kDequantized, 2).size(), 32u * 64 * 2);
  }
}

TEST_F(Forms, GroupsHaveAmaxHistories) {
  Input in({32, 64});
  QuantizerConfig c;
  c.options.format = Format::kFp8E4M3;
  Quantizer delayed(client_, c);
  delayed.set_delayed_scaling({2, 4}, HistoryOptions{{1, 2, 3, 4, 5, 6}});
  ASSERT_OK_AND_ASSIGN(const auto q,
                       delayed.QuantizeGroups(in.desc, in.data, {16, 16}));
  EXPECT_EQ(q.part(TensorKind::kAmaxHistory)->shape,
            (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(q.as<float>(TensorKind::kNextScale).size(), 2u);
  ASSERT_OK_AND_ASSIGN(const auto second, q.group(1));
  EXPECT_THAT(second.options().fp8.scale, ElementsAre(4.0f));
  EXPECT_THAT(second.options().fp8.history->amax, ElementsAre(4, 5, 6));
  EXPECT_EQ(second.as<float>(TensorKind::kAmaxHistory).data(),
            q.as<float>(TensorKind::kAmaxHistory).data() + 3);
}

TEST_F(Forms, GroupsMayEndBeforeTheTensor) {
  Input in({2, 20, 64});
  const Quantizer strict(client_);
  EXPECT_EQ(FieldOf(strict.QuantizeGroups(in.desc, in.data, {16, 20}).status()),
            "splits");
  QuantizerConfig partial;
  partial.options.partial_splits = true;
  const Quantizer quantizer(client_, partial);
  EXPECT_THAT(quantizer.Quantize(in.desc, in.data), IsOk());
  ASSERT_OK_AND_ASSIGN(const auto q,
                       quantizer.QuantizeGroups(in.desc, in.data, {16, 20}));
  EXPECT_TRUE(server_.last_request().options().splits().partial());
  EXPECT_EQ(server_.last_request().payload().size(), in.data.size());
  EXPECT_EQ(q.shape(), in.desc.shape);
  EXPECT_EQ(q.rowwise()->data_shape, (std::vector<int64_t>{36, 32}));
  EXPECT_EQ(q.group(1)->shape(), (std::vector<int64_t>{20, 64}));
  ASSERT_OK_AND_ASSIGN(const auto decoded, q.Dequantize(*client_));
  EXPECT_EQ(decoded.part(TensorKind::kDequantized)->shape,
            (std::vector<int64_t>{36, 64}));
  ASSERT_OK_AND_ASSIGN(const auto reshaped, q.Reshape({40, 64}));
  EXPECT_THAT(reshaped.ConvertScaleLayout(Layout::kSwizzled), IsOk());
  const std::string path = (dir_.path() / "partial.safetensors").string();
  ASSERT_THAT(q.Save(path), IsOk());
  ASSERT_OK_AND_ASSIGN(const auto loaded, QuantizedTensor::Load(path));
  EXPECT_TRUE(loaded.options().partial_splits);
}

// The client refuses lists that are too long before it sends them.
TEST_F(Forms, SendsLongListsAndRefusesTooLongOnes) {
  Input in({32, 64});
  QuantizeOptions o;
  o.format = Format::kFp8E4M3;
  o.fp8.scale = {1};
  o.fp8.history = HistoryOptions{std::vector<float>(65536, 1.0f)};
  ASSERT_OK_AND_ASSIGN(const auto result,
                       client_->Quantize(in.desc, in.data, o));
  EXPECT_EQ(result.as<float>(TensorKind::kAmaxHistory).size(), 65536u);
  const int calls = server_.calls();
  o.splits = std::vector<int64_t>(20, 0);
  o.splits->back() = 32;
  o.fp8.scale.assign(20, 1);
  o.fp8.history->amax.assign(20 * 65536, 1.0f);
  const auto refused = client_->Quantize(in.desc, in.data, o).status();
  EXPECT_EQ(FieldOf(refused), "message");
  const auto error = GetServerError(refused);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->reason, ErrorReason::kTooLarge);
  EXPECT_EQ(error->limit, 4u << 20);
  EXPECT_EQ(server_.calls(), calls);
}

}  // namespace
}  // namespace quantd
