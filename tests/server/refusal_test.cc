// Tests of a server that refuses calls.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "tests/server/server_fixture.h"

namespace quantd {
namespace {

TEST_F(ServerTest, RefusesWrongCallsAtOnce) {
  StartFake();
  const absl::Time start = absl::Now();
  for (int i = 0; i < 200; ++i) {
    RpcOptions options;
    if (i % 2 == 0) options.method = "NoSuchMethod";
    const RpcResult result = Call(channel_, "\xff\xff\xff", options);
    ASSERT_EQ(result.status.error_code(),
              i % 2 == 0 ? grpc::UNIMPLEMENTED : grpc::INVALID_ARGUMENT)
        << i << ": " << result.status.error_message();
  }
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

TEST_F(ServerTest, ErrorsQuoteLittleOfTheRequest) {
  StartFake();
  v1::DequantizeRequest request;
  for (const int side : {16, 16}) request.mutable_tensor()->add_shape(side);
  request.mutable_options()->set_format(v1::FORMAT_FP8_E4M3);
  request.mutable_options()->set_output(v1::DTYPE_F32);
  v1::TensorRef* const codes = request.add_tensors();
  codes->set_kind(v1::TENSOR_KIND_ROWWISE_DATA);
  for (int i = 0; i < 20'000; ++i) codes->add_shape(INT64_MIN + i);
  RpcOptions options;
  options.method = "Dequantize";
  const RpcResult result = Call(channel_, request.SerializeAsString(), options);
  EXPECT_EQ(result.status.error_code(), grpc::INVALID_ARGUMENT)
      << result.status.error_message();
  ASSERT_TRUE(result.detail.has_value());
  EXPECT_EQ(result.detail->field(), "tensors[0].shape");
  EXPECT_LE(result.detail->got().size(), 64u) << result.detail->got();
  EXPECT_TRUE(result.detail->got().ends_with("...")) << result.detail->got();
  EXPECT_LE(result.status.error_message().size(), 512u);
}

TEST_F(ServerTest, SmallMethodsRefuseLargeRequests) {
  StartFake();
  RpcOptions options;
  options.method = "GetServerInfo";
  const absl::Time start = absl::Now();
  const RpcResult result =
      Call(channel_, std::string(size_t{1} << 20, 'x'), options);
  EXPECT_EQ(result.status.error_code(), grpc::INVALID_ARGUMENT)
      << result.status.error_message();
  ASSERT_TRUE(result.detail.has_value());
  EXPECT_EQ(result.detail->reason(), v1::ErrorDetail::REASON_TOO_LARGE);
  EXPECT_LT(absl::Now() - start, absl::Seconds(5));
}

// The device is busy, so the call would miss its deadline behind the admitted
// work.
TEST_F(ServerTest, RefusesACallThatWouldMissItsDeadline) {
  options_.memory_budget = 512 << 20;
  StartFake(1);
  const std::string request = QuantizeOnes(500).SerializeAsString();
  RpcOptions options;
  options.declared = std::to_string(request.size());
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(Call(channel_, request, options).status.ok());
  }
  control_.Close();
  std::thread before([&] {
    const std::string large = QuantizeOnes(30'000).SerializeAsString();
    RpcOptions of_large;
    of_large.declared = std::to_string(large.size());
    EXPECT_TRUE(Call(channel_, large, of_large).status.ok());
  });
  EXPECT_TRUE(control_.AwaitRunning(1));
  options.deadline = absl::Milliseconds(15);
  RpcResult result;
  // On a slow machine the deadline may pass before the gate decides, so this
  // repeats.
  for (int i = 0; i < 200 && result.pushback.empty(); ++i) {
    result = Call(channel_, request, options);
  }
  EXPECT_EQ(result.status.error_code(), grpc::RESOURCE_EXHAUSTED);
  ASSERT_TRUE(result.detail.has_value());
  EXPECT_EQ(result.detail->reason(), v1::ErrorDetail::REASON_DEADLINE);
  EXPECT_EQ(result.pushback, std::to_string(result.detail->retry_delay_ms()));
  control_.Open();
  before.join();
}

// The job is admitted with little time to spare. It waits for a slot until it
// would end too late, and the device then does not begin it.
TEST_F(ServerTest, DoesNotBeginAJobThatWouldEndTooLate) {
  constexpr absl::Duration kJob = absl::Milliseconds(50);
  options_.memory_budget = 512 << 20;
  StartFake(1);
  const std::string request = QuantizeOnes(500).SerializeAsString();
  RpcOptions options;
  options.declared = std::to_string(request.size());
  const auto send = [&](absl::Duration deadline) {
    options.deadline = deadline;
    auto call = std::make_unique<RpcCall>(channel_, options);
    EXPECT_TRUE(call->Send(request));
    EXPECT_TRUE(call->HalfClose());
    return call;
  };
  for (int i = 0; i < 20; ++i) {
    control_.Close();
    const auto call = send(absl::Minutes(1));
    ASSERT_TRUE(control_.AwaitRunning(1));
    absl::SleepFor(kJob);
    control_.Open();
    ASSERT_TRUE(call->Receive().has_value());
    ASSERT_TRUE(call->Finish().status.ok());
  }
  control_.Close();
  const auto ahead = send(absl::Minutes(1));
  ASSERT_TRUE(control_.AwaitRunning(1));
  const int begun = control_.begun();
  const auto late = send(6 * kJob);
  const auto ample = send(absl::Minutes(1));
  absl::SleepFor(5 * kJob);
  control_.Open();
  EXPECT_FALSE(late->Receive().has_value());
  const RpcResult result = late->Finish();
  EXPECT_EQ(result.status.error_code(), grpc::DEADLINE_EXCEEDED)
      << result.status.error_message();
  for (RpcCall* call : {ahead.get(), ample.get()}) {
    EXPECT_TRUE(call->Receive().has_value());
    EXPECT_TRUE(call->Finish().status.ok());
  }
  EXPECT_EQ(control_.begun(), begun + 1);
}

}  // namespace
}  // namespace quantd
