// Legal and illegal requests, their sizes and their messages.
#include "quantd/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "tests/kernels/plan/plan_request.h"

namespace quantd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

struct Illegal {
  std::string name;
  int functions;
  std::string field;
  std::string got;  // part of what the error reports as `got`
  std::function<void(PlanRequest&)> edit;
};

const std::vector<Illegal>& IllegalRequests() {
  static const auto& rows = *new std::vector<Illegal>{
      {"no dimensions", kAll, "tensor.shape", "0 dimensions",
       [](PlanRequest& r) { r.tensor = Tensor({}); }},
      {"nine dimensions", kAll, "tensor.shape", "9 dimensions",
       [](PlanRequest& r) {
         r.tensor = Tensor({1, 1, 1, 1, 1, 1, 1, 1, 16});
       }},
      {"negative dimension", kAll, "tensor.shape", "-1",
       [](PlanRequest& r) {
         r.tensor = Tensor({-1, 16});
       }},
      {"two negative dimensions", kAll, "tensor.shape", "-4",
       [](PlanRequest& r) {
         r.tensor = Tensor({-4, -16});
       }},
      {"product beyond 2^63", kAll, "tensor.shape", "4294967296",
       [](PlanRequest& r) {
         r.tensor = Tensor({int64_t{1} << 32, int64_t{1} << 32});
       }},
      {"product wraps to 0", kAll, "tensor.shape", "4294967296",
       [](PlanRequest& r) {
         r.tensor = Tensor({int64_t{1} << 32, int64_t{1} << 32, 16});
       }},
      {"largest dimension", kAll, "tensor.shape", std::to_string(kHuge),
       [](PlanRequest& r) {
         r.tensor = Tensor({kHuge, 16});
       }},
      {"overflow hidden by a zero", kAll, "tensor.shape", std::to_string(kHuge),
       [](PlanRequest& r) {
         r.tensor = Tensor({kHuge, kHuge, 0}, 2);
       }},
      {"more than 2^48 elements", kAll, "tensor.shape", "16777216",
       [](PlanRequest& r) {
         r.tensor = Tensor({(int64_t{1} << 24) + 1, int64_t{1} << 24});
       }},
      {"axis 0", kAll, "tensor.flatten_axis", "0",
       [](PlanRequest& r) {
         r.tensor = Tensor({32, 64}, 0);
       }},
      {"axis = rank", kAll, "tensor.flatten_axis", "2",
       [](PlanRequest& r) {
         r.tensor = Tensor({32, 64}, 2);
       }},
      {"axis -rank", kAll, "tensor.flatten_axis", "-2",
       [](PlanRequest& r) {
         r.tensor = Tensor({32, 64}, -2);
       }},
      {"axis far below", kAll, "tensor.flatten_axis", "-2147483648",
       [](PlanRequest& r) {
         r.tensor = Tensor({32, 64}, std::numeric_limits<int>::min());
       }},
      {"axis of a vector", kAll, "tensor.flatten_axis", "1",
       [](PlanRequest& r) { r.tensor = Tensor({64}, 1); }},
      {"K is no multiple of the block", kQuantize | kDequantize | kRotate,
       "tensor.shape", "K = 17",
       [](PlanRequest& r) {
         r.tensor = Tensor({32, 17});
       }},
      {"K by the axis is no multiple of the block",
       kQuantize | kDequantize | kRotate, "tensor.shape", "K = 24",
       [](PlanRequest& r) {
         r.tensor = Tensor({2, 3, 8}, 1);
       }},
      {"K is no multiple of the dimension", kAmax, "tensor.shape", "K = 17",
       [](PlanRequest& r) {
         r.tensor = Tensor({32, 17});
         r.amax.rowwise_rht = true;
       }},
      {"no input type", kQuantize | kAmax | kRotate, "tensor.dtype", "none",
       [](PlanRequest& r) { r.tensor.dtype = DType::kUnspecified; }},
      {"codes as input", kQuantize | kAmax | kRotate, "tensor.dtype", "e4m3",
       [](PlanRequest& r) { r.tensor.dtype = DType::kE4M3; }},
      {"unknown input type", kQuantize | kAmax | kRotate, "tensor.dtype", "99",
       [](PlanRequest& r) { r.tensor.dtype = static_cast<DType>(99); }},
      {"no format", kQuantize | kDequantize, "format", "none",
       [](PlanRequest& r) {
         r.quantize.format = r.dequantize.format = Format::kUnspecified;
       }},
      {"unknown format", kQuantize | kDequantize, "format", "77",
       [](PlanRequest& r) {
         r.quantize.format = r.dequantize.format = static_cast<Format>(77);
       }},
      {"no usage", kQuantize | kDequantize, "usage", "0",
       [](PlanRequest& r) {
         r.quantize.usage = r.dequantize.usage = Usage::kUnspecified;
       }},
      {"unknown usage", kQuantize | kDequantize, "usage", "7",
       [](PlanRequest& r) {
         r.quantize.usage = r.dequantize.usage = static_cast<Usage>(7);
       }},
      {"both copies at once", kDequantize, "usage", "both",
       [](PlanRequest& r) { r.dequantize.usage = Usage::kBoth; }},
      {"codes as output", kDequantize | kRotate, "output", "e2m1",
       [](PlanRequest& r) {
         r.dequantize.output = r.rotate.output = DType::kE2M1x2;
       }},
      {"no output", kDequantize, "output", "none",
       [](PlanRequest& r) { r.dequantize.output = DType::kUnspecified; }},
      {"dimension 48", kAll, "rht.dimension", "48",
       [](PlanRequest& r) {
         r.quantize.rht.dimension = r.dequantize.rht_dimension =
             r.amax.rht_dimension = r.rotate.rht_dimension = 48;
       }},
      {"dimension 256", kAll, "rht.dimension", "256",
       [](PlanRequest& r) {
         r.quantize.rht.dimension = r.dequantize.rht_dimension =
             r.amax.rht_dimension = r.rotate.rht_dimension = 256;
       }},
      {"dimension -16", kAll, "rht.dimension", "-16",
       [](PlanRequest& r) {
         r.quantize.rht.dimension = r.dequantize.rht_dimension =
             r.amax.rht_dimension = r.rotate.rht_dimension = -16;
       }},
      {"dimension 0", kAll, "rht.dimension", "0",
       [](PlanRequest& r) {
         r.quantize.rht.dimension = r.dequantize.rht_dimension =
             r.amax.rht_dimension = r.rotate.rht_dimension = 0;
       }},
      {"mask of 17 bits", kAll, "rht.sign_mask", "",
       [](PlanRequest& r) {
         r.quantize.rht.sign_mask = r.dequantize.sign_mask = r.amax.sign_mask =
             r.rotate.sign_mask = SignMask{{1 << 16, 0}};
       }},
      {"mask in the upper word", kAll, "rht.sign_mask", "",
       [](PlanRequest& r) {
         r.quantize.rht.sign_mask = r.dequantize.sign_mask = r.amax.sign_mask =
             r.rotate.sign_mask = SignMask{{0, 1}};
       }},
      {"unknown policy", kQuantize | kAmax, "non_finite", "9",
       [](PlanRequest& r) {
         r.quantize.non_finite = r.amax.non_finite = static_cast<NonFinite>(9);
       }},
      {"mask of 65 bits of dimension 64", kAll, "rht.sign_mask", "",
       [](PlanRequest& r) {
         r.quantize.rht.dimension = r.dequantize.rht_dimension =
             r.amax.rht_dimension = r.rotate.rht_dimension = 64;
         r.quantize.rht.sign_mask = r.dequantize.sign_mask = r.amax.sign_mask =
             r.rotate.sign_mask = SignMask{{0, 1}};
       }},
      {"no maximum requested", kAmax, "rowwise", "none",
       [](PlanRequest& r) { r.amax.rowwise = false; }},
  };
  return rows;
}

TEST(PlanTest, RequestsThatTestsModifyAreLegal) {
  for (int f = 1; f < kAll; f *= 2) EXPECT_THAT(Make(f, PlanRequest()), IsOk());
}

TEST(PlanTest, IllegalRequestsNameTheField) {
  for (const Illegal& row : IllegalRequests()) {
    for (int function = 1; function < kAll; function *= 2) {
      if (!(row.functions & function)) continue;
      SCOPED_TRACE(row.name + ", function " + std::to_string(function));
      PlanRequest request;
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
    PlanRequest r;
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

TEST(PlanTest, MaximaComeInTheOrderOfTheirKinds) {
  PlanRequest r;
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

TEST(PlanTest, RotationKeepsTheTypeByDefault) {
  PlanRequest r;
  ASSERT_THAT(Make(kRotate, r), IsOk());
  EXPECT_EQ(Make(kRotate, r)->outputs()[0].dtype, DType::kBF16);
  r.rotate.output = DType::kF32;
  EXPECT_EQ(Make(kRotate, r)->output_bytes(), 32u * 64 * 4);
}

}  // namespace
}  // namespace quantd
