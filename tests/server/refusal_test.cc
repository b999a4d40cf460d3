// A server that is asked wrongly, many times.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "server/net/refusal_pace.h"
#include "tests/server/server_fixture.h"

namespace quantd {
namespace {

TEST_F(ServerTest, WrongCallsAreAnsweredAtAPace) {
  StartFake();
  const int calls = RefusalPace::kAtOnce + RefusalPace::kPerSecond;
  const absl::Time start = absl::Now();
  for (int i = 0; i < calls; ++i) {
    RpcOptions options;
    if (i % 2 == 0) options.method = "NoSuchMethod";
    const RpcResult result = Call(channel_, "\xff\xff\xff", options);
    ASSERT_EQ(result.status.error_code(),
              i % 2 == 0 ? grpc::UNIMPLEMENTED : grpc::INVALID_ARGUMENT)
        << i << ": " << result.status.error_message();
  }
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(990));
  // Who asks rightly waits for nothing: refusals would be due in a second.
  std::vector<std::unique_ptr<RpcCall>> wrong;
  for (int i = 0; i < 100; ++i) {
    wrong.push_back(
        std::make_unique<RpcCall>(channel_, "/no.Such/Method", RpcOptions()));
  }
  EXPECT_TRUE(Call(channel_, QuantizeOnes(1).SerializeAsString()).status.ok());
  // What has not been sent yet is counted.
  EXPECT_TRUE(Eventually([&] { return server_->ledger().used() != 0; }));
  for (const auto& call : wrong) {
    EXPECT_EQ(call->Finish().status.error_code(), grpc::UNIMPLEMENTED);
  }
}

TEST_F(ServerTest, ErrorsRepeatLittleOfWhatCame) {
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

TEST_F(ServerTest, SmallMethodsSayThatARequestIsTooLarge) {
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

TEST_F(ServerTest, WhoExpectsAWordGetsIt) {
  StartFake();
  const std::string request = QuantizeOnes(500).SerializeAsString();
  RpcOptions options;
  options.declared = std::to_string(request.size());
  options.metadata = {{"quantd-expect", "continue"}};
  RpcCall call(channel_, options);
  ASSERT_TRUE(call.GoesOn());
  ASSERT_TRUE(call.Send(request));
  ASSERT_TRUE(call.HalfClose());
  EXPECT_TRUE(call.Receive().has_value());
  EXPECT_TRUE(call.Finish().status.ok());
  // Who is refused gets none.
  options.declared = "1000000000000";
  RpcCall large(channel_, options);
  EXPECT_FALSE(large.GoesOn());
  EXPECT_EQ(large.Finish().status.error_code(), grpc::INVALID_ARGUMENT);
}

TEST_F(ServerTest, WhoWouldBeLateGetsATicketThatServes) {
  options_.memory_budget = 512 << 20;
  StartFake(1);
  const std::string request = QuantizeOnes(500).SerializeAsString();
  RpcOptions options;
  options.declared = std::to_string(request.size());
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(Call(channel_, request, options).status.ok());
  }
  // What is before it would take long.
  control_.Close();
  std::thread before([&] {
    const std::string large = QuantizeOnes(30'000).SerializeAsString();
    RpcOptions of_large;
    of_large.declared = std::to_string(large.size());
    EXPECT_TRUE(Call(channel_, large, of_large).status.ok());
  });
  EXPECT_TRUE(control_.AwaitRunning(1));
  options.metadata = {{"quantd-expect", "continue"},
                      {"quantd-ticket", "none of this server's"}};
  options.deadline = absl::Milliseconds(15);
  RpcResult result;
  // The time may be over before a slow machine has looked.
  for (int i = 0; i < 200 && result.ticket.empty(); ++i) {
    RpcCall call(channel_, options);
    EXPECT_FALSE(call.GoesOn());
    result = call.Finish();
  }
  EXPECT_EQ(result.status.error_code(), grpc::RESOURCE_EXHAUSTED);
  ASSERT_TRUE(result.detail.has_value());
  EXPECT_EQ(result.detail->reason(), v1::ErrorDetail::REASON_DEADLINE);
  EXPECT_EQ(result.pushback, std::to_string(result.detail->retry_delay_ms()));
  control_.Open();
  before.join();
  absl::SleepFor(absl::Milliseconds(result.detail->retry_delay_ms()));
  options.metadata = {{"quantd-ticket", result.ticket}};
  options.deadline = absl::Minutes(1);
  EXPECT_TRUE(Call(channel_, request, options).status.ok());
}

// Let in with little time to spare, it waits for its turn until it would end
// too late: the device does not begin it.
TEST_F(ServerTest, WhoWouldEndTooLateDoesNotBegin) {
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

TEST_F(ServerTest, RefusalThatWaitsEndsWithItsCaller) {
  StartFake();
  for (int i = 0; i < RefusalPace::kAtOnce; ++i) {
    RpcCall(channel_, "/no.Such/Method", RpcOptions()).Finish();
  }
  std::vector<std::unique_ptr<RpcCall>> wrong;
  for (int i = 0; i < 100; ++i) {
    wrong.push_back(
        std::make_unique<RpcCall>(channel_, "/no.Such/Method", RpcOptions()));
  }
  for (const auto& call : wrong) call->Cancel();
  for (const auto& call : wrong) call->Finish();
}

}  // namespace
}  // namespace quantd
