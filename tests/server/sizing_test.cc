#include "server/config/sizing.h"

#include <gtest/gtest.h>

#include "kernels/device/budget.h"

namespace quantd {
namespace {

size_t Expected(wire::Method method, size_t bytes) {
  return ExpectedPayload(bytes, wire::SpecOf(method).output_sixteenths);
}

TEST(SizingTest, SharesSumToTheBudgetAndTheLargestRequestFits) {
  for (const size_t budget :
       {size_t{16} << 20, size_t{2} << 30, size_t{8} << 30}) {
    for (const int devices : {1, 2, 8}) {
      const MemoryShares s = DivideBudget(budget, devices, 0);
      EXPECT_LE(s.receive + s.per_device * devices, budget);
      EXPECT_GT(s.grpc_quota, s.receive);
      EXPECT_GE(s.bound, budget);
      for (const wire::MethodSpec& row : wire::kTensorMethods) {
        const size_t n = LargestRequest(row.method, s, wire::kMaxMessageBytes);
        const auto fits = [&](size_t bytes) {
          return ReceiveNeed(bytes) <= s.message &&
                 Expected(row.method, bytes) <= s.per_device;
        };
        EXPECT_TRUE(fits(n)) << budget << " " << devices;
        EXPECT_TRUE(n == wire::kMaxMessageBytes || !fits(n + 1));
      }
    }
  }
}

TEST(SizingTest, ReservationCoversUsualPlans) {
  const auto covers = [](wire::Method method, const absl::StatusOr<Plan>& p) {
    ASSERT_TRUE(p.ok()) << p.status();
    // A request consists of its input bytes and a head.
    EXPECT_LE(PayloadNeed(*p), Expected(method, p->input_bytes() + 40))
        << wire::Name(method) << " " << p->rows() << "x" << p->cols();
  };
  for (const int64_t n : {128, 1024, 4096}) {
    for (const DType t : {DType::kBF16, DType::kF32}) {
      const TensorDesc tensor{t, {n, n}, -1};
      for (const FormatSpec& format : kFormats) {
        QuantizeOptions quantize;
        quantize.format = format.format;
        quantize.usage = Usage::kBoth;
        quantize.dbias = true;
        covers(wire::Method::kQuantize, MakeQuantizePlan(tensor, quantize));
        DequantizeOptions dequantize;
        dequantize.format = format.format;
        dequantize.output = t;
        covers(wire::Method::kDequantize,
               MakeDequantizePlan(tensor, dequantize));
        dequantize.form.compact_scales = (format.options & kOptCompact) != 0;
        covers(wire::Method::kDequantize,
               MakeDequantizePlan(tensor, dequantize));
      }
      ApplyRhtOptions rotate;
      rotate.output = DType::kF32;
      covers(wire::Method::kApplyRht, MakeApplyRhtPlan(tensor, rotate));
      RhtAmaxOptions amax;
      amax.rowwise = amax.columnwise_rht = true;
      covers(wire::Method::kRhtAmax, MakeRhtAmaxPlan(tensor, amax));
      amax.domain = AmaxDomain::kRow;
      covers(wire::Method::kRhtAmax, MakeRhtAmaxPlan(tensor, amax));
    }
  }
}

}  // namespace
}  // namespace quantd
