// A legal request to each Make function, which tests modify to make one field
// illegal.
#ifndef QUANTD_TESTS_KERNELS_PLAN_PLAN_REQUEST_H_
#define QUANTD_TESTS_KERNELS_PLAN_PLAN_REQUEST_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "quantd/field_error.h"
#include "quantd/plan.h"
#include "tests/testing/matchers.h"

namespace quantd {

inline TensorDesc Tensor(std::vector<int64_t> shape, int flatten_axis = -1) {
  return {DType::kBF16, std::move(shape), flatten_axis};
}

enum Function { kQuantize = 1, kDequantize = 2, kAmax = 4, kRotate = 8 };
inline constexpr int kAll = 15;

struct PlanRequest {
  TensorDesc tensor = Tensor({32, 64});
  QuantizeOptions quantize;
  DequantizeOptions dequantize;
  RhtAmaxOptions amax;
  ApplyRhtOptions rotate;

  explicit PlanRequest(Format format = Format::kNvfp4) {
    quantize.format = format;
    quantize.usage = Usage::kBoth;
    dequantize.format = format;
    dequantize.output = DType::kBF16;
    amax.rowwise = true;
  }
};

inline absl::StatusOr<Plan> Make(int function, const PlanRequest& r) {
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

// Expects INVALID_ARGUMENT with exactly these parts, also in the message.
inline void ExpectRefused(const absl::Status& status, std::string_view field,
                          std::string_view expected, std::string_view got) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  const auto violation = GetFieldViolation(status);
  ASSERT_TRUE(violation.has_value()) << status;
  EXPECT_EQ(violation->field, field);
  EXPECT_EQ(violation->expected, expected);
  EXPECT_EQ(violation->got, got);
  EXPECT_EQ(status.message(), violation->field + ": expected " +
                                  violation->expected + ", got " +
                                  violation->got);
}

}  // namespace quantd

#endif  // QUANTD_TESTS_KERNELS_PLAN_PLAN_REQUEST_H_
