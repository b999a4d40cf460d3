// How large everything is. The numbers are worked out by hand from the rules
// of kernels/FORMATS.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "tests/kernels/plan_request.h"

namespace quantd {
namespace {

using testing::ElementsAre;

// "kind dtype 2x3", " swizzled" where it is, and the groups' offsets.
std::string Text(const TensorSpec& s) {
  std::string text = fmt::format("{} {} {}", Name(s.kind), Name(s.dtype),
                                 fmt::join(s.shape, "x"));
  if (s.layout != Layout::kLinear) text += fmt::format(" {}", Name(s.layout));
  if (!s.group_offsets.empty()) {
    text += fmt::format(" ({})", fmt::join(s.group_offsets, " "));
  }
  return text;
}

// The tensors one after the other, each at the next multiple of 64, each as
// long as its shape.
void ExpectTensors(const std::vector<TensorSpec>& specs, size_t bytes,
                   const std::vector<std::string>& expected) {
  std::vector<std::string> texts;
  size_t end = 0;
  for (const TensorSpec& s : specs) {
    texts.push_back(Text(s));
    EXPECT_EQ(s.offset, (end + 63) / 64 * 64) << texts.back();
    size_t size = SizeOf(s.dtype);
    for (int64_t d : s.shape) size *= static_cast<size_t>(d);
    EXPECT_EQ(s.size, size) << texts.back();
    if (!s.group_offsets.empty()) {
      EXPECT_EQ(s.group_offsets.front(), 0u);
      EXPECT_EQ(s.group_offsets.back(), s.size);
    }
    end = s.offset + s.size;
  }
  EXPECT_EQ(texts, expected);
  EXPECT_EQ(bytes, end);
}

// What Dequantize of `usage` wants of those outputs: the copy, in which an
// amax counts only for NVFP4.
std::vector<std::string> CopyOf(const std::vector<std::string>& outputs,
                                Usage usage, bool with_amax) {
  std::vector<std::string> copy;
  for (const std::string& text : outputs) {
    if (!text.starts_with(Name(usage))) continue;
    if (!with_amax && text.find("_amax") != std::string::npos) continue;
    copy.push_back(text);
  }
  return copy;
}

struct Case {
  Format format;
  std::vector<int64_t> shape;
  std::vector<std::string> outputs;
  std::function<void(QuantizeOptions&)> edit = {};
};

void Check(const Case& c) {
  PlanRequest r(c.format);
  r.tensor = Tensor(c.shape);
  if (c.edit) c.edit(r.quantize);
  SCOPED_TRACE(fmt::format("{} {}", Name(c.format), fmt::join(c.shape, "x")));
  const auto plan = Make(kQuantize, r);
  ASSERT_THAT(plan, IsOk());
  ExpectTensors(plan->outputs(), plan->output_bytes(), c.outputs);
  const std::string input =
      fmt::format("input bf16 {}x{}", plan->rows(), plan->cols());
  ExpectTensors(plan->inputs(), plan->input_bytes(), {input});
  for (const Usage usage : {Usage::kRowwise, Usage::kColumnwise}) {
    const bool columnwise = usage == Usage::kColumnwise;
    r.dequantize.usage = usage;
    r.dequantize.inverse_rht =
        columnwise ? r.quantize.rht.columnwise : r.quantize.rht.rowwise;
    r.dequantize.rht_dimension = r.quantize.rht.dimension;
    r.dequantize.form = r.quantize.form;
    r.dequantize.splits = r.quantize.splits;
    const auto back = Make(kDequantize, r);
    ASSERT_THAT(back, IsOk());
    const bool nvfp4 =
        c.format == Format::kNvfp4 || c.format == Format::kNvfp4Square;
    ExpectTensors(back->inputs(), back->input_bytes(),
                  CopyOf(c.outputs, usage, nvfp4));
    ASSERT_EQ(back->outputs().size(), 1u);
    EXPECT_THAT(Text(back->outputs()[0]),
                testing::StartsWith(fmt::format("dequantized bf16 {}x{}",
                                                plan->rows(), plan->cols())));
  }
}

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
  // Offsets with gaps, written out.
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

// Every rotated code is kept, and its block's scale.
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
  nvfp4(16, "128x72", "128x12");    // 144 of 130 tokens, 9 blocks
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

TEST(SizesTest, WhatStandsBesideTheCopies) {
  PlanRequest r(Format::kFp8E4M3);
  r.tensor = Tensor({130, 96});
  r.quantize.usage = Usage::kNone;
  r.quantize.amax = r.quantize.dbias = true;
  r.quantize.scale = {1};
  r.quantize.history = HistoryOptions{{0, 1, 2}};
  auto plan = Make(kQuantize, r);
  ASSERT_THAT(plan, IsOk());
  ExpectTensors(plan->outputs(), plan->output_bytes(),
                {"amax f32 1", "dbias bf16 96", "amax_history f32 3",
                 "next_scale f32 1"});
  r.quantize.history.reset();
  r.quantize.scale.clear();
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
  r.quantize.scale = {1, 2, 3, 4};
  r.quantize.history = HistoryOptions{{0, 1, 2, 3, 4, 5, 6, 7}};
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

// Rows after the last group are in the input and in nothing else.
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
  // None at all may be in a group.
  r.tensor = Tensor({60, 32});
  r.quantize.splits = {{0, 0}};
  const auto none = Make(kQuantize, r);
  ASSERT_THAT(none, IsOk());
  EXPECT_EQ(none->rows(), 0);
  EXPECT_EQ(none->input_bytes(), 60u * 32 * 2);
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

// Nothing has the shape that the formulas of FORMATS.md give it.
TEST(SizesTest, ShapesOfNothing) {
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
      // Two amaxes, and of FP8 tensors two scales.
      const bool tensor =
          f.format == Format::kFp8E4M3 || f.format == Format::kFp8E5M2;
      const bool nvfp4 =
          f.format == Format::kNvfp4 || f.format == Format::kNvfp4Square;
      EXPECT_EQ(bytes, tensor ? 16u : nvfp4 ? 8u : 0u);
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
