#include "server/engine.h"

#include <gtest/gtest.h>

#include "absl/synchronization/notification.h"
#include "server/sizing.h"
#include "tests/server/fake_backend.h"

namespace quantd {
namespace {

struct TestWork : Engine::Work {
  void RunOn(Backend& backend, Engine::SlotLease) override {
    device = backend.info().name;
    started.Notify();
    release.WaitForNotification();
    // Tells last: whoever waits may destroy this.
    auto* done_now = &done;
    done_now->Notify();
  }
  bool Started() {
    return started.WaitForNotificationWithTimeout(absl::Minutes(1));
  }
  std::string device;
  absl::Notification started;
  absl::Notification release;
  absl::Notification done;
};

class EngineTest : public testing::Test {
 protected:
  void Make(int devices, int slots) {
    std::vector<std::unique_ptr<Backend>> backends;
    for (int i = 0; i < devices; ++i) {
      backends.push_back(std::make_unique<FakeBackend>(
          &control_, "fake:" + std::to_string(i), slots, 1 << 20));
    }
    engine_ = std::make_unique<Engine>(std::move(backends));
  }
  FakeControl control_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineTest, RunsOnTheDeviceAskedForAsManyAsSlots) {
  Make(2, 2);
  TestWork a, b, c, other;
  engine_->Submit(1, &a);
  engine_->Submit(1, &b);
  engine_->Submit(1, &c);
  engine_->Submit(0, &other);
  ASSERT_TRUE(a.Started());
  ASSERT_TRUE(b.Started());
  ASSERT_TRUE(other.Started());
  EXPECT_EQ(a.device, "fake:1");
  EXPECT_EQ(other.device, "fake:0");
  EXPECT_FALSE(
      c.started.WaitForNotificationWithTimeout(absl::Milliseconds(30)));
  a.release.Notify();
  ASSERT_TRUE(c.Started());
  for (TestWork* work : {&b, &c, &other}) work->release.Notify();
  for (TestWork* work : {&a, &b, &c, &other}) {
    work->done.WaitForNotification();
  }
  engine_.reset();
}

TEST_F(EngineTest, SlotTakenByTheCallerHoldsBackTheWorkers) {
  Make(1, 1);
  auto slot = engine_->TrySlot(0);
  ASSERT_TRUE(slot);
  EXPECT_FALSE(engine_->TrySlot(0));
  TestWork work;
  work.release.Notify();
  engine_->Submit(0, &work);
  EXPECT_FALSE(
      work.started.WaitForNotificationWithTimeout(absl::Milliseconds(30)));
  slot.Reset();
  ASSERT_TRUE(work.Started());
  work.done.WaitForNotification();
  engine_.reset();
}

TEST_F(EngineTest, WithdrawnWorkIsNotRun) {
  Make(1, 1);
  TestWork running, queued;
  engine_->Submit(0, &running);
  ASSERT_TRUE(running.Started());
  engine_->Submit(0, &queued);
  EXPECT_FALSE(engine_->Withdraw(0, &running));
  EXPECT_TRUE(engine_->Withdraw(0, &queued));
  EXPECT_FALSE(engine_->Withdraw(0, &queued));
  running.release.Notify();
  running.done.WaitForNotification();
  engine_.reset();
  EXPECT_FALSE(queued.started.HasBeenNotified());
}

TEST(SizingTest, SharesAddUpAndTheLargestRequestFits) {
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
                 ExpectedPayload(row.method, bytes) <= s.per_device;
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
    // A request is its input bytes and a head.
    EXPECT_LE(PayloadNeed(*p), ExpectedPayload(method, p->input_bytes() + 40))
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

TEST(SizingTest, ScratchCounts) {
  QuantizeOptions options;
  options.format = Format::kNvfp4;
  const TensorDesc tensor{DType::kBF16, {256, 1 << 20}, -1};
  const size_t without = PayloadNeed(*MakeQuantizePlan(tensor, options));
  options.dbias = true;
  const auto plan = MakeQuantizePlan(tensor, options);
  ASSERT_TRUE(plan.ok());
  // Two chunks of 128 rows, a float a column each; and dbias itself.
  EXPECT_EQ(plan->scratch_bytes(), size_t{8} << 20);
  EXPECT_GE(PayloadNeed(*plan), without + (size_t{8} << 20));
}

}  // namespace
}  // namespace quantd
