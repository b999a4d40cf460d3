// Legal and illegal requests, their sizes and their messages.
#include "kernels/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "kernels/field_error.h"
#include "tests/testing/matchers.h"

namespace quantd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

TensorDesc Tensor(std::vector<int64_t> shape, int flatten_axis = -1) {
  return {DType::kBF16, std::move(shape), flatten_axis};
}

// A legal request to each function; the tables below break one thing.
struct Request {
  TensorDesc tensor = Tensor({32, 64});
  QuantizeOptions quantize;
  DequantizeOptions dequantize;
  RhtAmaxOptions amax;
  ApplyRhtOptions rotate;

  Request() {
    quantize.format = Format::kNvfp4;
    quantize.usage = Usage::kBoth;
    dequantize.format = Format::kNvfp4;
    dequantize.output = DType::kBF16;
    amax.rowwise = true;
  }
};

enum Function { kQuantize = 1, kDequantize = 2, kAmax = 4, kRotate = 8 };
constexpr int kAll = 15;

absl::StatusOr<Plan> Make(int function, const Request& r) {
  switch (function) {
    case kQuantize:
      return MakeQuantizePlan(r.tensor, r.quantize);
    case kDequantize:
      return MakeDequantizePlan(r.tensor, r.dequantize);
    case kAmax:
      return MakeRhtAmaxPlan(r.tensor, r.amax);
    default:
      return MakeApplyRhtPlan(r.tensor, r.rotate);
  }
}

struct Illegal {
  std::string name;
  int functions;
  std::string field;
  std::string got;  // part of what the error says came
  std::function<void(Request&)> edit;
};

const std::vector<Illegal>& IllegalRequests() {
  static const auto& rows = *new std::vector<Illegal>{
      {"no dimensions", kAll, "tensor.shape", "0 dimensions",
       [](Request& r) { r.tensor = Tensor({}); }},
      {"nine dimensions", kAll, "tensor.shape", "9 dimensions",
       [](Request& r) {
         r.tensor = Tensor({1, 1, 1, 1, 1, 1, 1, 1, 16});
       }},
      {"negative dimension", kAll, "tensor.shape", "-1",
       [](Request& r) {
         r.tensor = Tensor({-1, 16});
       }},
      {"two negative dimensions", kAll, "tensor.shape", "-4",
       [](Request& r) {
         r.tensor = Tensor({-4, -16});
       }},
      {"product beyond 2^63", kAll, "tensor.shape", "4294967296",
       [](Request& r) {
         r.tensor = Tensor({int64_t{1} << 32, int64_t{1} << 32});
       }},
      {"product wraps to 0", kAll, "tensor.shape", "4294967296",
       [](Request& r) {
         r.tensor = Tensor({int64_t{1} << 32, int64_t{1} << 32, 16});
       }},
      {"largest dimension", kAll, "tensor.shape", std::to_string(kHuge),
       [](Request& r) {
         r.tensor = Tensor({kHuge, 16});
       }},
      {"overflow hidden by a zero", kAll, "tensor.shape", std::to_string(kHuge),
       [](Request& r) {
         r.tensor = Tensor({kHuge, kHuge, 0}, 2);
       }},
      {"2^48 elements and more", kAll, "tensor.shape", "16777216",
       [](Request& r) {
         r.tensor = Tensor({(int64_t{1} << 24) + 1, int64_t{1} << 24});
       }},
      {"axis 0", kAll, "tensor.flatten_axis", "0",
       [](Request& r) {
         r.tensor = Tensor({32, 64}, 0);
       }},
      {"axis = rank", kAll, "tensor.flatten_axis", "2",
       [](Request& r) {
         r.tensor = Tensor({32, 64}, 2);
       }},
      {"axis -rank", kAll, "tensor.flatten_axis", "-2",
       [](Request& r) {
         r.tensor = Tensor({32, 64}, -2);
       }},
      {"axis far below", kAll, "tensor.flatten_axis", "-2147483648",
       [](Request& r) {
         r.tensor = Tensor({32, 64}, std::numeric_limits<int>::min());
       }},
      {"axis of a vector", kAll, "tensor.flatten_axis", "1",
       [](Request& r) { r.tensor = Tensor({64}, 1); }},
      {"ragged K", kQuantize | kDequantize | kRotate, "tensor.shape", "K = 17",
       [](Request& r) {
         r.tensor = Tensor({32, 17});
       }},
      {"ragged K by the axis", kQuantize | kDequantize | kRotate,
       "tensor.shape", "K = 24",
       [](Request& r) {
         r.tensor = Tensor({2, 3, 8}, 1);
       }},
      {"ragged K of rotated maxima", kAmax, "tensor.shape", "K = 17",
       [](Request& r) {
         r.tensor = Tensor({32, 17});
         r.amax.rowwise_rht = true;
       }},
      {"no input type", kQuantize | kAmax | kRotate, "tensor.dtype", "none",
       [](Request& r) { r.tensor.dtype = DType::kUnspecified; }},
      {"codes as input", kQuantize | kAmax | kRotate, "tensor.dtype", "e4m3",
       [](Request& r) { r.tensor.dtype = DType::kE4M3; }},
      {"unknown input type", kQuantize | kAmax | kRotate, "tensor.dtype", "99",
       [](Request& r) { r.tensor.dtype = static_cast<DType>(99); }},
      {"no format", kQuantize | kDequantize, "format", "none",
       [](Request& r) {
         r.quantize.format = r.dequantize.format = Format::kUnspecified;
       }},
      {"unknown format", kQuantize | kDequantize, "format", "77",
       [](Request& r) {
         r.quantize.format = r.dequantize.format = static_cast<Format>(77);
       }},
      {"no usage", kQuantize | kDequantize, "usage", "0",
       [](Request& r) {
         r.quantize.usage = r.dequantize.usage = Usage::kUnspecified;
       }},
      {"unknown usage", kQuantize | kDequantize, "usage", "7",
       [](Request& r) {
         r.quantize.usage = r.dequantize.usage = static_cast<Usage>(7);
       }},
      {"both copies at once", kDequantize, "usage", "both",
       [](Request& r) { r.dequantize.usage = Usage::kBoth; }},
      {"codes as output", kDequantize | kRotate, "output", "e2m1",
       [](Request& r) {
         r.dequantize.output = r.rotate.output = DType::kE2M1x2;
       }},
      {"no output", kDequantize, "output", "none",
       [](Request& r) { r.dequantize.output = DType::kUnspecified; }},
      {"dimension 32", kAll, "rht.dimension", "32",
       [](Request& r) {
         r.quantize.rht.dimension = r.dequantize.rht_dimension =
             r.amax.rht_dimension = r.rotate.rht_dimension = 32;
       }},
      {"dimension 0", kAll, "rht.dimension", "0",
       [](Request& r) {
         r.quantize.rht.dimension = r.dequantize.rht_dimension =
             r.amax.rht_dimension = r.rotate.rht_dimension = 0;
       }},
      {"mask of 17 bits", kAll, "rht.sign_mask", "",
       [](Request& r) {
         r.quantize.rht.sign_mask = r.dequantize.sign_mask = r.amax.sign_mask =
             r.rotate.sign_mask = SignMask{{1 << 16, 0}};
       }},
      {"mask in the upper word", kAll, "rht.sign_mask", "",
       [](Request& r) {
         r.quantize.rht.sign_mask = r.dequantize.sign_mask = r.amax.sign_mask =
             r.rotate.sign_mask = SignMask{{0, 1}};
       }},
      {"unknown policy", kQuantize | kAmax, "non_finite", "9",
       [](Request& r) {
         r.quantize.non_finite = r.amax.non_finite = static_cast<NonFinite>(9);
       }},
      {"negative amax", kQuantize, "given_amax.rowwise", "-1",
       [](Request& r) { r.quantize.rowwise_amax = -1.0f; }},
      {"NaN amax", kQuantize, "given_amax.rowwise", "nan",
       [](Request& r) { r.quantize.rowwise_amax = NAN; }},
      {"Inf amax", kQuantize, "given_amax.columnwise", "inf",
       [](Request& r) { r.quantize.columnwise_amax = INFINITY; }},
      {"no maximum wanted", kAmax, "rowwise", "none",
       [](Request& r) { r.amax.rowwise = false; }},
  };
  return rows;
}

TEST(PlanTest, TheRequestsTheTableBreaksAreLegal) {
  for (int f = 1; f < kAll; f *= 2) EXPECT_THAT(Make(f, Request()), IsOk());
}

TEST(PlanTest, IllegalRequestsNameTheField) {
  for (const Illegal& row : IllegalRequests()) {
    for (int function = 1; function < kAll; function *= 2) {
      if (!(row.functions & function)) continue;
      SCOPED_TRACE(row.name + ", function " + std::to_string(function));
      Request request;
      row.edit(request);
      const auto plan = Make(function, request);
      ASSERT_THAT(plan, StatusIs(absl::StatusCode::kInvalidArgument));
      const auto violation = GetFieldViolation(plan.status());
      ASSERT_TRUE(violation.has_value());
      EXPECT_THAT(violation->field, HasSubstr(row.field));
      EXPECT_FALSE(violation->expected.empty());
      EXPECT_FALSE(violation->got.empty());
      EXPECT_THAT(violation->got, HasSubstr(row.got));
      EXPECT_EQ(plan.status().message(), violation->field + ": expected " +
                                             violation->expected + ", got " +
                                             violation->got);
    }
  }
}

TEST(PlanTest, ForeignStatusHasNoFieldViolation) {
  EXPECT_FALSE(GetFieldViolation(absl::OkStatus()).has_value());
  EXPECT_FALSE(
      GetFieldViolation(absl::InvalidArgumentError("a: expected b, got c"))
          .has_value());
}

TEST(PlanTest, ShapesBecomeMatrices) {
  const struct {
    std::vector<int64_t> shape;
    int axis;
    int64_t rows, cols;
    int normalised;
  } kCases[] = {{{48}, -1, 1, 48, -1},
                {{2, 3, 32}, -1, 6, 32, 2},
                {{2, 3, 32}, 2, 6, 32, 2},
                {{2, 3, 32}, 1, 2, 96, 1},
                {{2, 3, 32}, -2, 2, 96, 1},
                {{3, 16, 2}, 1, 3, 32, 1},
                {{1, 1, 1, 1, 1, 1, 1, 16}, 7, 1, 16, 7},
                {{0, 16}, 1, 0, 16, 1},
                {{16, 0}, 1, 16, 0, 1},
                {{0, 5, 16}, 1, 0, 80, 1},
                {{int64_t{1} << 44, 16}, 1, int64_t{1} << 44, 16, 1}};
  for (const auto& c : kCases) {
    Request r;
    r.tensor = Tensor(c.shape, c.axis);
    for (int f = 1; f < kAll; f *= 2) {
      const auto plan = Make(f, r);
      ASSERT_THAT(plan, IsOk());
      EXPECT_EQ(plan->rows(), c.rows);
      EXPECT_EQ(plan->cols(), c.cols);
      EXPECT_EQ(plan->tensor().flatten_axis, c.normalised);
      EXPECT_EQ(plan->tensor().shape, c.shape);
    }
  }
}

void ExpectSpec(const TensorSpec& spec, TensorKind kind, DType dtype,
                std::vector<int64_t> shape, size_t offset, size_t size) {
  EXPECT_EQ(spec.kind, kind) << Name(spec.kind);
  EXPECT_EQ(spec.dtype, dtype);
  EXPECT_EQ(spec.layout, Layout::kLinear);
  EXPECT_EQ(spec.shape, shape);
  EXPECT_EQ(spec.offset, offset);
  EXPECT_EQ(spec.size, size);
}

TEST(PlanTest, SizesOfBothCopies) {
  Request r;
  r.tensor = Tensor({17, 80});
  const auto plan = Make(kQuantize, r);
  ASSERT_THAT(plan, IsOk());
  ASSERT_EQ(plan->inputs().size(), 1u);
  ExpectSpec(plan->inputs()[0], TensorKind::kInput, DType::kBF16, {17, 80}, 0,
             2720);
  EXPECT_EQ(plan->input_bytes(), 2720u);
  const auto& out = plan->outputs();
  ASSERT_EQ(out.size(), 6u);
  using K = TensorKind;
  ExpectSpec(out[0], K::kRowwiseData, DType::kE2M1x2, {17, 40}, 0, 680);
  ExpectSpec(out[1], K::kRowwiseScale, DType::kE4M3, {128, 8}, 704, 1024);
  ExpectSpec(out[2], K::kRowwiseAmax, DType::kF32, {1}, 1728, 4);
  ExpectSpec(out[3], K::kColumnwiseData, DType::kE2M1x2, {80, 16}, 1792, 1280);
  ExpectSpec(out[4], K::kColumnwiseScale, DType::kE4M3, {128, 4}, 3072, 512);
  ExpectSpec(out[5], K::kColumnwiseAmax, DType::kF32, {1}, 3584, 4);
  EXPECT_EQ(plan->output_bytes(), 3588u);
  EXPECT_EQ(plan->output(K::kRowwiseScale), &out[1]);
  EXPECT_EQ(plan->output(K::kDequantized), nullptr);
  EXPECT_EQ(plan->input(K::kInput), &plan->inputs()[0]);
}

TEST(PlanTest, ColumnwiseAloneTakesAnyK) {
  Request r;
  r.tensor = Tensor({33, 17});
  r.quantize.usage = r.dequantize.usage = Usage::kColumnwise;
  const auto plan = Make(kQuantize, r);
  ASSERT_THAT(plan, IsOk());
  ASSERT_EQ(plan->outputs().size(), 3u);
  EXPECT_THAT(plan->outputs()[0].shape, ElementsAre(17, 24));
  EXPECT_THAT(plan->outputs()[1].shape, ElementsAre(128, 4));
  const auto back = Make(kDequantize, r);
  ASSERT_THAT(back, IsOk());
  ASSERT_EQ(back->inputs().size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(back->inputs()[i].shape, plan->outputs()[i].shape);
    EXPECT_EQ(back->inputs()[i].offset % kPayloadAlignment, 0u);
  }
  ASSERT_EQ(back->outputs().size(), 1u);
  ExpectSpec(back->outputs()[0], TensorKind::kDequantized, DType::kBF16,
             {33, 17}, 0, 33 * 17 * 2);
}

TEST(PlanTest, EmptyTensorsHaveOnlyAmaxes) {
  for (const auto& shape : {std::vector<int64_t>{0, 16}, {16, 0}, {0, 0}}) {
    Request r;
    r.tensor = Tensor(shape);
    const auto plan = Make(kQuantize, r);
    ASSERT_THAT(plan, IsOk());
    size_t bytes = 0;
    for (const TensorSpec& spec : plan->outputs()) bytes += spec.size;
    EXPECT_EQ(bytes, 8u);
    EXPECT_EQ(plan->input_bytes(), 0u);
    ASSERT_THAT(Make(kRotate, r), IsOk());
    EXPECT_EQ(Make(kRotate, r)->output_bytes(), 0u);
  }
}

TEST(PlanTest, MaximaComeInTheOrderOfTheirKinds) {
  Request r;
  r.amax.rowwise_rht = r.amax.columnwise = r.amax.columnwise_rht = true;
  const auto plan = Make(kAmax, r);
  ASSERT_THAT(plan, IsOk());
  std::vector<int> kinds;
  for (const TensorSpec& spec : plan->outputs()) {
    kinds.push_back(static_cast<int>(spec.kind));
    EXPECT_EQ(spec.size, 4u);
    EXPECT_EQ(spec.offset % kPayloadAlignment, 0u);
  }
  EXPECT_THAT(kinds, ElementsAre(4, 7, 10, 11));
}

TEST(PlanTest, OneAmaxServesBothOnlyWithoutRotation) {
  const auto amaxes = [](const Request& r) {
    const auto plan = Make(kQuantize, r);
    EXPECT_THAT(plan, IsOk());
    const auto& used = std::get<QuantizeOptions>(plan->options());
    return std::pair(used.rowwise_amax, used.columnwise_amax);
  };
  Request r;
  r.quantize.rowwise_amax = 3.0f;
  EXPECT_EQ(amaxes(r), std::pair(std::optional(3.0f), std::optional(3.0f)));
  r.quantize.rht.columnwise = true;
  EXPECT_EQ(amaxes(r), std::pair(std::optional(3.0f), std::optional<float>()));
}

TEST(PlanTest, RotationKeepsTheTypeUnlessTold) {
  Request r;
  ASSERT_THAT(Make(kRotate, r), IsOk());
  EXPECT_EQ(Make(kRotate, r)->outputs()[0].dtype, DType::kBF16);
  r.rotate.output = DType::kF32;
  EXPECT_EQ(Make(kRotate, r)->output_bytes(), 32u * 64 * 4);
}

}  // namespace
}  // namespace quantd
