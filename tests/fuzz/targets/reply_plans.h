// The plans of the target `reply`, which seeds also use.
#ifndef QUANTD_TESTS_FUZZ_TARGETS_REPLY_PLANS_H_
#define QUANTD_TESTS_FUZZ_TARGETS_REPLY_PLANS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "proto/wire.h"
#include "quantd/plan.h"
#include "tests/fuzz/targets/target.h"

namespace quantd::fuzz {

inline std::vector<Plan> Plans() {
  const TensorDesc tensor{DType::kF32, {4, 32}};
  std::vector<QuantizeOptions> quantize(5);
  quantize[0].format = Format::kNvfp4;
  quantize[0].usage = Usage::kBoth;
  quantize[1].format = Format::kMxfp8E4M3;
  quantize[1].statistics = true;
  quantize[2].format = Format::kFp8E4M3;
  quantize[2].want_amax = true;
  quantize[2].dbias = true;
  quantize[3].format = Format::kNvfp4;
  quantize[3].rht.rowwise = true;
  quantize[3].rounding = Rounding::kStochastic;
  quantize[4].format = Format::kNvfp4;
  quantize[4].splits = {1, 3};
  std::vector<Plan> plans;
  for (const QuantizeOptions& options : quantize) {
    auto plan = MakeQuantizePlan(tensor, options);
    Check(plan.ok(), plan.status().ToString());
    plans.push_back(*std::move(plan));
  }
  DequantizeOptions decode;
  decode.format = Format::kNvfp4;
  decode.output = DType::kBF16;
  RhtAmaxOptions amax;
  amax.rowwise = amax.columnwise_rht = true;
  for (auto& plan :
       {MakeDequantizePlan(tensor, decode), MakeRhtAmaxPlan(tensor, amax),
        MakeApplyRhtPlan(tensor, {})}) {
    Check(plan.ok(), plan.status().ToString());
    plans.push_back(*plan);
  }
  return plans;
}

// Returns shared ranges for all tensors of a plan, one after another.
inline wire::LentRanges AllLent(const Plan& plan) {
  wire::LentRanges lent;
  uint64_t offset = 0;
  for (const TensorSpec& output : plan.outputs()) {
    lent.outputs.push_back({std::string(16, 'r'), offset, output.size});
    offset += (output.size + 255) / 256 * 256;
  }
  return lent;
}

}  // namespace quantd::fuzz

#endif  // QUANTD_TESTS_FUZZ_TARGETS_REPLY_PLANS_H_
