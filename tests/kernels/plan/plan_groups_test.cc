// Shapes, sizes and offsets of tensors with groups, and of outputs other than
// the copies.
#include "tests/kernels/plan/plan_tensors.h"

namespace quantd {
namespace {

void Split3(QuantizeOptions& o) { o.splits = {{17, 0, 33}}; }

TEST(SizesTest, GroupsOfNvfp4) {
  Check({Format::kNvfp4,
         {50, 32},
         {"rowwise_data e2m1x2 50x16 (0 272 272 800)",
          "rowwise_scale e4m3 1024 (0 512 512 1024)",
          "rowwise_amax f32 3 (0 4 8 12)",
          "columnwise_data e2m1x2 1280 (0 512 512 1280)",
          "columnwise_scale e4m3 1024 (0 512 512 1024)",
          "columnwise_amax f32 3 (0 4 8 12)"},
         Split3});
  Check({Format::kNvfp4,
         {50, 32},
         {"rowwise_data e2m1x2 50x16 (0 272 272 800)",
          "rowwise_scale e4m3 1024 (0 512 512 1024)",
          "rowwise_amax f32 50 (0 68 68 200)",
          "columnwise_data e2m1x2 1280 (0 512 512 1280)",
          "columnwise_scale e4m3 1024 (0 512 512 1024)",
          "columnwise_amax f32 96 (0 128 256 384)"},
         [](QuantizeOptions& o) {
           Split3(o);
           o.form.row_scaled = true;
         }});
  Check({Format::kNvfp4Square,
         {50, 32},
         {"rowwise_data e2m1x2 50x16 (0 272 272 800)",
          "rowwise_scale e4m3 10 (0 4 4 10)", "rowwise_amax f32 3 (0 4 8 12)",
          "columnwise_data e2m1x2 1280 (0 512 512 1280)",
          "columnwise_scale e4m3 10 (0 4 4 10)",
          "columnwise_amax f32 3 (0 4 8 12)"},
         [](QuantizeOptions& o) {
           Split3(o);
           o.form.compact_scales = true;
         }});
}

TEST(SizesTest, GroupsOfFp8) {
  // An empty group has a scale, too.
  Check({Format::kFp8E4M3,
         {50, 5},
         {"rowwise_data e4m3 50x5 (0 85 85 250)",
          "rowwise_scale f32 3 (0 4 8 12)", "rowwise_amax f32 3 (0 4 8 12)",
          "columnwise_data e4m3 250 (0 85 85 250)",
          "columnwise_scale f32 3 (0 4 8 12)",
          "columnwise_amax f32 3 (0 4 8 12)"},
         Split3});
  Check({Format::kFp8BlockE4M3,
         {50, 130},
         {"rowwise_data e4m3 50x130 (0 2210 2210 6500)",
          "rowwise_scale f32 112 (0 160 160 448)",
          "columnwise_data e4m3 6500 (0 2210 2210 6500)",
          "columnwise_scale f32 264 (0 528 528 1056)"},
         Split3});
  Check({Format::kFp8SquareE4M3,
         {50, 130},
         {"rowwise_data e4m3 50x130 (0 2210 2210 6500)",
          "rowwise_scale f32 8 (0 16 16 32)",
          "columnwise_data e4m3 6500 (0 2210 2210 6500)",
          "columnwise_scale f32 16 (0 32 32 64)"},
         Split3});
}

TEST(SizesTest, GroupsOfMx) {
  Check({Format::kMxfp8E4M3,
         {50, 32},
         {"rowwise_data e4m3 50x32 (0 544 544 1600)",
          "rowwise_scale e8m0 1024 (0 512 512 1024)",
          "columnwise_data e4m3 1600 (0 544 544 1600)",
          "columnwise_scale e8m0 1024 (0 512 512 1024)"},
         Split3});
  Check({Format::kMxfp8E4M3,
         {50, 32},
         {"rowwise_data e4m3 50x32 (0 544 544 1600)",
          "rowwise_scale e8m0 1024 (0 512 512 1024)",
          "columnwise_data e4m3 3072 (0 1024 1024 3072)",
          "columnwise_scale e8m0 1024 (0 512 512 1024)"},
         [](QuantizeOptions& o) {
           Split3(o);
           o.rht.columnwise = true;
         }});
  Check({Format::kMxfp4,
         {50, 32},
         {"rowwise_data e2m1x2 50x16 (0 272 272 800)",
          "rowwise_scale e8m0 1024 (0 512 512 1024)",
          "columnwise_data e2m1x2 1536 (0 512 512 1536)",
          "columnwise_scale e8m0 1024 (0 512 512 1024)"},
         Split3});
}

TEST(SizesTest, OutputsBesideTheCopies) {
  PlanRequest r(Format::kFp8E4M3);
  r.tensor = Tensor({130, 96});
  r.quantize.usage = Usage::kNone;
  r.quantize.want_amax = r.quantize.dbias = true;
  r.quantize.fp8.scale = {1};
  r.quantize.fp8.history = HistoryOptions{{0, 1, 2}};
  auto plan = Make(kQuantize, r);
  ASSERT_THAT(plan, IsOk());
  ExpectTensors(plan->outputs(), plan->output_bytes(),
                {"amax f32 1", "dbias bf16 96", "amax_history f32 3",
                 "next_scale f32 1"});
  r.quantize.fp8.history.reset();
  r.quantize.fp8.scale.clear();
  r.quantize.dbias_dtype = DType::kF32;
  r.quantize.splits = {{1, 0, 128, 1}};
  plan = Make(kQuantize, r);
  ASSERT_THAT(plan, IsOk());
  ExpectTensors(
      plan->outputs(), plan->output_bytes(),
      {"amax f32 4 (0 4 8 12 16)", "dbias f32 4x96 (0 384 768 1152 1536)"});
  // A history for each group.
  r.quantize.dbias = false;
  r.quantize.dbias_dtype = DType::kUnspecified;
  r.quantize.fp8.scale = {1, 2, 3, 4};
  r.quantize.fp8.history = HistoryOptions{{0, 1, 2, 3, 4, 5, 6, 7}};
  plan = Make(kQuantize, r);
  ASSERT_THAT(plan, IsOk());
  ExpectTensors(
      plan->outputs(), plan->output_bytes(),
      {"amax f32 4 (0 4 8 12 16)", "amax_history f32 4x2 (0 8 16 24 32)",
       "next_scale f32 4 (0 4 8 12 16)"});
}

TEST(SizesTest, DecodedGroupsHaveOffsets) {
  PlanRequest r;
  r.tensor = Tensor({50, 32});
  r.dequantize.splits = {{17, 0, 33}};
  const auto plan = Make(kDequantize, r);
  ASSERT_THAT(plan, IsOk());
  ExpectTensors(plan->outputs(), plan->output_bytes(),
                {"dequantized bf16 50x32 (0 1088 1088 3200)"});
}

// Rows after the last group are only in the input, not in the outputs.
TEST(SizesTest, GroupsThatEndBeforeTheTensor) {
  PlanRequest r;
  r.tensor = Tensor({60, 32});
  r.quantize.splits = r.dequantize.splits = r.amax.splits = {{17, 0, 33}};
  r.quantize.partial_splits = r.dequantize.partial_splits =
      r.amax.partial_splits = true;
  r.quantize.dbias = true;
  r.amax.domain = AmaxDomain::kRow;
  for (const int function : {kQuantize, kDequantize, kAmax}) {
    r.tensor = Tensor({60, 32});
    const auto part = Make(function, r);
    r.tensor = Tensor({50, 32});
    const auto full = Make(function, r);
    ASSERT_THAT(part, IsOk());
    ASSERT_THAT(full, IsOk());
    EXPECT_EQ(part->rows(), 50);
    std::vector<std::string> texts;
    for (const TensorSpec& s : full->outputs()) texts.push_back(Text(s));
    ExpectTensors(part->outputs(), full->output_bytes(), texts);
    EXPECT_EQ(part->scratch_bytes(), full->scratch_bytes());
    if (function == kDequantize) {
      EXPECT_EQ(part->input_bytes(), full->input_bytes());
    } else {
      ExpectTensors(part->inputs(), part->input_bytes(), {"input bf16 60x32"});
    }
  }
  // All groups may be empty.
  r.tensor = Tensor({60, 32});
  r.quantize.splits = {{0, 0}};
  const auto none = Make(kQuantize, r);
  ASSERT_THAT(none, IsOk());
  EXPECT_EQ(none->rows(), 0);
  EXPECT_EQ(none->input_bytes(), 60u * 32 * 2);
}

}  // namespace
}  // namespace quantd
