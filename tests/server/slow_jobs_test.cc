// Tests of jobs that take long but make progress, and of jobs that make none.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "tests/server/server_fixture.h"

namespace quantd {
namespace {

constexpr absl::Duration kMaxJob = absl::Milliseconds(250);

// Each test runs for a unary call and for a stream.
class SlowJobsTest : public ServerTest,
                     public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    options_.max_job = kMaxJob;
    StartFake(4);
    control_.Close();
  }
  RpcResult Quantize() {
    v1::QuantizeRequest request = QuantizeOnes(64);
    const auto channel = Dial(server_->address());
    if (!GetParam()) return Call(channel, request.SerializeAsString());
    v1::StreamRequest chunk;
    chunk.set_chunk(std::move(*request.mutable_payload()));
    request.clear_payload();
    v1::StreamRequest start;
    start.set_payload_bytes(chunk.chunk().size());
    *start.mutable_quantize() = std::move(request);
    RpcOptions options;
    options.method = "Stream";
    RpcCall call(channel, options);
    EXPECT_TRUE(call.Send(start.SerializeAsString()));
    EXPECT_TRUE(call.Send(chunk.SerializeAsString()));
    EXPECT_TRUE(call.HalfClose());
    while (call.Receive()) {
    }
    return call.Finish();
  }
  void MakeProgress(absl::Duration time) {
    for (const absl::Time end = absl::Now() + time; absl::Now() < end;) {
      control_.Step();
      absl::SleepFor(absl::Milliseconds(5));
    }
  }
};

TEST_P(SlowJobsTest, SlowJobsWithProgressAreNotEnded) {
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      const RpcResult result = Quantize();
      EXPECT_TRUE(result.status.ok()) << result.status.error_message();
    });
  }
  EXPECT_TRUE(control_.AwaitRunning(4));
  MakeProgress(2 * kMaxJob);
  control_.Open();
  for (std::thread& client : clients) client.join();
}

TEST_P(SlowJobsTest, JobWithoutProgressCountsAsHanging) {
  std::thread client([&] {
    const RpcResult result = Quantize();
    EXPECT_EQ(result.status.error_code(), grpc::UNAVAILABLE);
    ASSERT_TRUE(result.detail.has_value());
    EXPECT_EQ(result.detail->reason(), v1::ErrorDetail::REASON_NO_DEVICE);
  });
  EXPECT_TRUE(control_.AwaitRunning(1));
  MakeProgress(kMaxJob / 4);
  client.join();
}

INSTANTIATE_TEST_SUITE_P(Ways, SlowJobsTest, testing::Bool());

}  // namespace
}  // namespace quantd
