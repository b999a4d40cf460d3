// Sizes of all inputs and outputs. The numbers are worked out by hand from the
// rules of proto/BYTES.md.
#include "tests/kernels/plan/plan_tensors.h"

namespace quantd {
namespace {

using testing::ElementsAre;

TEST(SizesTest, Nvfp4) {
  Check({Format::kNvfp4,
         {130, 96},
         {"rowwise_data e2m1x2 130x48", "rowwise_scale e4m3 256x8",
          "rowwise_amax f32 1", "columnwise_data e2m1x2 96x72",
          "columnwise_scale e4m3 128x12", "columnwise_amax f32 1"}});
  Check({Format::kNvfp4,
         {130, 96},
         {"rowwise_data e2m1x2 130x48", "rowwise_scale e4m3 256x8 swizzled",
          "rowwise_amax f32 130", "columnwise_data e2m1x2 96x72",
          "columnwise_scale e4m3 128x12 swizzled", "columnwise_amax f32 96"},
         [](QuantizeOptions& o) {
           o.form.scale_layout = Layout::kSwizzled;
           o.form.row_scaled = true;
         }});
  // Offsets with gaps, in full.
  PlanRequest r;
  r.tensor = Tensor({17, 80});
  const auto plan = Make(kQuantize, r);
  ASSERT_THAT(plan, IsOk());
  std::vector<size_t> places;
  for (const TensorSpec& s : plan->outputs()) {
    places.push_back(s.offset);
    places.push_back(s.size);
  }
  EXPECT_THAT(places, ElementsAre(0, 680, 704, 1024, 1728, 4, 1792, 1280, 3072,
                                  512, 3584, 4));
  EXPECT_EQ(plan->output_bytes(), 3588u);
  EXPECT_EQ(plan->input_bytes(), 2720u);
}

// All rotated codes are stored, including those of padding, and the scales of
// their blocks.
TEST(SizesTest, RotatedColumnsArePaddedToTheDimension) {
  const auto rotate = [](int dimension) {
    return [dimension](QuantizeOptions& o) {
      o.rht.rowwise = o.rht.columnwise = true;
      o.rht.dimension = dimension;
    };
  };
  const auto nvfp4 = [&](int dimension, std::string data, std::string scale) {
    Check({Format::kNvfp4,
           {130, 128},
           {"rowwise_data e2m1x2 130x64", "rowwise_scale e4m3 256x8",
            "rowwise_amax f32 1", "columnwise_data e2m1x2 " + data,
            "columnwise_scale e4m3 " + scale, "columnwise_amax f32 1"},
           rotate(dimension)});
  };
  nvfp4(16, "128x72", "128x12");    // 130 rows padded to 144, 9 blocks
  nvfp4(32, "128x80", "128x12");    // 160, 10 blocks
  nvfp4(64, "128x96", "128x12");    // 192, 12 blocks
  nvfp4(128, "128x128", "128x16");  // 256, 16 blocks
  const auto mxfp8 = [&](int dimension, std::string data, std::string scale) {
    Check({Format::kMxfp8E5M2,
           {130, 128},
           {"rowwise_data e5m2 130x128", "rowwise_scale e8m0 256x4",
            "columnwise_data e5m2 " + data, "columnwise_scale e8m0 " + scale},
           rotate(dimension)});
  };
  mxfp8(16, "160x128", "8x128");  // whole blocks of 32: 5
  mxfp8(32, "160x128", "8x128");
  mxfp8(64, "192x128", "8x128");   // 6 blocks
  mxfp8(128, "256x128", "8x128");  // 8 blocks
  Check({Format::kMxfp4,
         {130, 128},
         {"rowwise_data e2m1x2 130x64", "rowwise_scale e8m0 256x4",
          "columnwise_data e2m1x2 128x128", "columnwise_scale e8m0 128x8"},
         rotate(128)});
}

TEST(SizesTest, Nvfp4Squares) {
  Check({Format::kNvfp4Square,
         {130, 96},
         {"rowwise_data e2m1x2 130x48", "rowwise_scale e4m3 256x8",
          "rowwise_amax f32 1", "columnwise_data e2m1x2 96x72",
          "columnwise_scale e4m3 128x12", "columnwise_amax f32 1"}});
  Check({Format::kNvfp4Square,
         {130, 96},
         {"rowwise_data e2m1x2 130x48", "rowwise_scale e4m3 9x6",
          "rowwise_amax f32 1", "columnwise_data e2m1x2 96x72",
          "columnwise_scale e4m3 6x9", "columnwise_amax f32 1"},
         [](QuantizeOptions& o) { o.form.compact_scales = true; }});
}

TEST(SizesTest, Fp8OfAnyK) {
  Check({Format::kFp8E4M3,
         {130, 201},
         {"rowwise_data e4m3 130x201", "rowwise_scale f32 1",
          "rowwise_amax f32 1", "columnwise_data e4m3 201x130",
          "columnwise_scale f32 1", "columnwise_amax f32 1"}});
  Check({Format::kFp8BlockE5M2,
         {130, 201},
         {"rowwise_data e5m2 130x201", "rowwise_scale f32 2x132",
          "columnwise_data e5m2 201x130", "columnwise_scale f32 2x204"}});
  Check({Format::kFp8SquareE4M3,
         {130, 201},
         {"rowwise_data e4m3 130x201", "rowwise_scale f32 2x4",
          "columnwise_data e4m3 201x130", "columnwise_scale f32 2x4"}});
  Check({Format::kFp8SquareE5M2,
         {1000, 129},
         {"rowwise_data e5m2 1000x129", "rowwise_scale f32 8x4",
          "columnwise_data e5m2 129x1000", "columnwise_scale f32 2x8"}});
}

TEST(SizesTest, Mx) {
  Check({Format::kMxfp8E4M3,
         {130, 96},
         {"rowwise_data e4m3 130x96", "rowwise_scale e8m0 256x4",
          "columnwise_data e4m3 130x96", "columnwise_scale e8m0 8x128"}});
  Check(
      {Format::kMxfp8E4M3,
       {130, 160},
       {"rowwise_data e4m3 130x160", "rowwise_scale e8m0 256x8 swizzled",
        "columnwise_data e4m3 130x160", "columnwise_scale e8m0 256x8 swizzled"},
       [](QuantizeOptions& o) { o.form.scale_layout = Layout::kSwizzled; }});
  Check({Format::kMxfp4,
         {130, 96},
         {"rowwise_data e2m1x2 130x48", "rowwise_scale e8m0 256x4",
          "columnwise_data e2m1x2 96x80", "columnwise_scale e8m0 128x8"}});
}

TEST(SizesTest, ScratchOfDbiasIsARowForEachChunk) {
  const auto scratch = [](PlanRequest r) {
    const auto plan = Make(kQuantize, r);
    EXPECT_THAT(plan, IsOk());
    return plan->scratch_bytes();
  };
  PlanRequest r;
  r.tensor = Tensor({130, 96});
  EXPECT_EQ(scratch(r), 0u);
  r.quantize.dbias = true;
  EXPECT_EQ(scratch(r), 2u * 96 * 4);  // 130 rows: two chunks of 128
  r.quantize.splits = {{1, 0, 128, 1}};
  EXPECT_EQ(scratch(r), 3u * 96 * 4);
  r.quantize.splits = {{0, 129, 1}};
  EXPECT_EQ(scratch(r), 3u * 96 * 4);
}

TEST(SizesTest, Maxima) {
  PlanRequest r;
  r.tensor = Tensor({50, 32});
  r.amax.rowwise_rht = r.amax.columnwise = r.amax.columnwise_rht = true;
  const auto check = [&](const std::string& row, const std::string& column) {
    const auto plan = Make(kAmax, r);
    ASSERT_THAT(plan, IsOk());
    ExpectTensors(
        plan->outputs(), plan->output_bytes(),
        {"rowwise_amax f32 " + row, "columnwise_amax f32 " + column,
         "rowwise_rht_amax f32 " + row, "columnwise_rht_amax f32 " + column});
  };
  check("1", "1");
  r.amax.domain = AmaxDomain::kRow;
  check("50", "32");
  r.amax.splits = {{17, 0, 33}};
  check("50 (0 68 68 200)", "96 (0 128 256 384)");
  r.amax.domain = AmaxDomain::kTensor;
  check("3 (0 4 8 12)", "3 (0 4 8 12)");
}

// Empty tensors have the shapes that the formulas of proto/BYTES.md give.
TEST(SizesTest, ShapesOfEmptyTensors) {
  const auto swizzled = [](QuantizeOptions& o) {
    o.form.scale_layout = Layout::kSwizzled;
  };
  Check({Format::kNvfp4,
         {0, 32},
         {"rowwise_data e2m1x2 0x16", "rowwise_scale e4m3 0x4",
          "rowwise_amax f32 1", "columnwise_data e2m1x2 32x0",
          "columnwise_scale e4m3 128x0", "columnwise_amax f32 1"}});
  Check({Format::kNvfp4,
         {20, 0},
         {"rowwise_data e2m1x2 20x0", "rowwise_scale e4m3 128x0",
          "rowwise_amax f32 1", "columnwise_data e2m1x2 0x16",
          "columnwise_scale e4m3 0x4", "columnwise_amax f32 1"}});
  Check({Format::kNvfp4Square,
         {0, 32},
         {"rowwise_data e2m1x2 0x16", "rowwise_scale e4m3 0x2",
          "rowwise_amax f32 1", "columnwise_data e2m1x2 32x0",
          "columnwise_scale e4m3 2x0", "columnwise_amax f32 1"},
         [](QuantizeOptions& o) { o.form.compact_scales = true; }});
  Check(
      {Format::kMxfp4,
       {0, 160},
       {"rowwise_data e2m1x2 0x80", "rowwise_scale e8m0 0x8 swizzled",
        "columnwise_data e2m1x2 160x0", "columnwise_scale e8m0 256x0 swizzled"},
       swizzled});
  Check({Format::kMxfp8E4M3,
         {40, 0},
         {"rowwise_data e4m3 40x0", "rowwise_scale e8m0 128x0",
          "columnwise_data e4m3 40x0", "columnwise_scale e8m0 4x0"}});
  Check({Format::kFp8BlockE4M3,
         {0, 130},
         {"rowwise_data e4m3 0x130", "rowwise_scale f32 2x0",
          "columnwise_data e4m3 130x0", "columnwise_scale f32 0x132"}});
  Check({Format::kFp8SquareE4M3,
         {130, 0},
         {"rowwise_data e4m3 130x0", "rowwise_scale f32 2x0",
          "columnwise_data e4m3 0x130", "columnwise_scale f32 0x4"}});
}

TEST(SizesTest, EmptyTensors) {
  for (const FormatSpec& f : kFormats) {
    for (const auto& shape : {std::vector<int64_t>{0, 128}, {128, 0}, {0, 0}}) {
      SCOPED_TRACE(fmt::format("{} {}", f.name, fmt::join(shape, "x")));
      PlanRequest r(f.format);
      r.tensor = Tensor(shape);
      const auto plan = Make(kQuantize, r);
      ASSERT_THAT(plan, IsOk());
      EXPECT_EQ(plan->input_bytes(), 0u);
      size_t bytes = 0;
      for (const TensorSpec& spec : plan->outputs()) bytes += spec.size;
      // Two amaxes, and for FP8 tensors two scales.
      const bool tensor =
          f.format == Format::kFp8E4M3 || f.format == Format::kFp8E5M2;
      const bool nvfp4 =
          f.format == Format::kNvfp4 || f.format == Format::kNvfp4Square;
      // FP8 channels have an amax and a scale for every line; only one copy has
      // lines here.
      const bool channel = f.format == Format::kFp8ChannelE4M3;
      const auto lines = static_cast<size_t>(shape[0] + shape[1]);
      EXPECT_EQ(bytes, tensor ? 16u : nvfp4 ? 8u : channel ? 8 * lines : 0u);
    }
  }
  EXPECT_EQ(Make(kRotate,
                 [] {
                   PlanRequest r;
                   r.tensor = Tensor({0, 16});
                   return r;
                 }())
                ->output_bytes(),
            0u);
}

}  // namespace
}  // namespace quantd
