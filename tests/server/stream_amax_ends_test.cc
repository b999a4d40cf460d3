// Tests of streams that wait for a reduced amax: the memory that they hold, and
// the causes that end them.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "tests/server/stream_amax.h"

namespace quantd {
namespace {

using v1::ErrorDetail;

TEST_F(StreamAmaxTest, HoldsMemoryButNoSlotWhileItWaits) {
  StartFake(1);
  std::vector<std::unique_ptr<RpcCall>> waiting;
  for (int i = 0; i < 3; ++i) waiting.push_back(Await(1024));
  const size_t payload = server_->gate().payload_used(0);
  EXPECT_GE(payload, 3 * size_t{1024} * 2048);
  // While the client waits for other ranks, the stream holds no message memory.
  EXPECT_TRUE(Eventually([&] { return server_->gate().receiving_used() == 0; }))
      << server_->gate().receiving_used();
  EXPECT_TRUE(Call(channel_, QuantizeOnes(64).SerializeAsString()).status.ok());
  for (auto& call : waiting) {
    ASSERT_TRUE(call->Send(Rowwise(3).SerializeAsString()));
    ASSERT_TRUE(call->HalfClose());
    EXPECT_TRUE(End(call.get()).status.ok());
  }
  EXPECT_TRUE(UsedBecomes(0));
}

TEST_F(StreamAmaxTest, EndsAStreamWithoutAReducedAmax) {
  options_.max_receive = absl::Seconds(3);
  StartFake();
  auto call = Await(64);
  EXPECT_TRUE(PassUntilUnused());
  ExpectEnd(call.get(), grpc::DEADLINE_EXCEEDED, ErrorDetail::REASON_DEADLINE);
  // The client sends the reduced amax, but does not half-close the stream.
  call = Await(64);
  ASSERT_TRUE(call->Send(Rowwise(3).SerializeAsString()));
  EXPECT_TRUE(PassUntilUnused());
  ExpectEnd(call.get(), grpc::DEADLINE_EXCEEDED, ErrorDetail::REASON_DEADLINE);
  // A late reduced amax finds the stream ended.
  call = Await(64);
  ASSERT_TRUE(PassUntilUnused());
  call->Send(Rowwise(3).SerializeAsString());
  EXPECT_EQ(End(call.get()).status.error_code(), grpc::DEADLINE_EXCEEDED);
}

TEST_F(StreamAmaxTest, WaitingStreamYieldsToOthers) {
  options_.memory_budget = 28 << 20;
  options_.max_wait = absl::Seconds(30);
  StartFake();
  auto waiting = Await(4096);
  const RpcResult good =
      Call(Dial(server_->address()), QuantizeOnes(4096).SerializeAsString());
  EXPECT_TRUE(good.status.ok()) << good.status.error_message();
  ExpectEnd(waiting.get(), grpc::RESOURCE_EXHAUSTED, ErrorDetail::REASON_BUSY);
}

// The time limit for the reduced amax begins when the maxima are sent, however
// long computing them took.
TEST_F(StreamAmaxTest, TimeLimitBeginsWithTheMaxima) {
  options_.memory_budget = 28 << 20;
  options_.max_wait = absl::Seconds(30);
  StartFake(1);
  control_.Close();
  auto call = Open(4096);
  ASSERT_TRUE(control_.AwaitRunning(1));
  std::thread other([&] {
    const RpcResult result =
        Call(Dial(server_->address()), QuantizeOnes(4096).SerializeAsString());
    EXPECT_TRUE(result.status.ok()) << result.status.error_message();
  });
  EXPECT_TRUE(Eventually([&] { return server_->gate().waiting() == 1; }));
  Pass(2);
  absl::SleepFor(absl::Milliseconds(50));
  control_.Open();
  EXPECT_TRUE(call->Receive().has_value());
  absl::SleepFor(absl::Milliseconds(400));
  EXPECT_TRUE(call->Send(Rowwise(3).SerializeAsString()));
  EXPECT_TRUE(call->HalfClose());
  const RpcResult result = End(call.get());
  EXPECT_TRUE(result.status.ok()) << result.status.error_message();
  other.join();
}

// FakeBackend has four stream slots besides its job slots.
TEST_F(StreamAmaxTest, StreamsWaitForAStreamSlot) {
  StartFake(1);
  std::vector<std::unique_ptr<RpcCall>> waiting;
  for (int i = 0; i < 4; ++i) waiting.push_back(Await(16));
  const auto other = Dial(server_->address());
  EXPECT_TRUE(Eventually([&] {
    RpcCall call(other, Stream());
    const v1::QuantizeRequest request = Request(16);
    if (!call.Send(Start(request)) || !call.Send(Chunk(request.payload()))) {
      return false;
    }
    if (!call.Receive()) return false;
    call.Send(Rowwise(3).SerializeAsString());
    call.HalfClose();
    return End(&call).status.ok();
  }));
  for (auto& call : waiting) call->Cancel();
  EXPECT_TRUE(UsedBecomes(0));
}

TEST_F(StreamAmaxTest, CanBeCancelledOrExpireAtEveryStep) {
  StartFake();
  control_.Close();
  auto call = Open(64);  // while the maxima are computed
  ASSERT_TRUE(control_.AwaitRunning(1));
  call->Cancel();
  EXPECT_EQ(call->Finish().status.error_code(), grpc::CANCELLED);
  control_.Open();
  EXPECT_TRUE(UsedBecomes(0));
  call = Await(64);  // while the reduced amax is awaited
  call->Cancel();
  EXPECT_EQ(call->Finish().status.error_code(), grpc::CANCELLED);
  EXPECT_TRUE(UsedBecomes(0));
  call = Await(64);  // while the end of the stream is awaited
  ASSERT_TRUE(call->Send(Rowwise(3).SerializeAsString()));
  call->Cancel();
  EXPECT_EQ(call->Finish().status.error_code(), grpc::CANCELLED);
  EXPECT_TRUE(UsedBecomes(0));
  call = Open(Request(64), absl::Milliseconds(400));
  EXPECT_EQ(End(call.get()).status.error_code(), grpc::DEADLINE_EXCEEDED);
  EXPECT_TRUE(UsedBecomes(0));
}

// There are more maxima than the connection buffers for a stream that is not
// read. The stream's memory is released before its error is sent.
TEST_F(StreamAmaxTest, EndsAStreamThatDoesNotReadItsMaxima) {
  options_.max_send = absl::Seconds(2);
  StartReal({"cpu:0"});
  v1::QuantizeRequest request = Request(0);
  request.mutable_tensor()->set_shape(0, 65536);
  request.mutable_tensor()->set_shape(1, 16);
  request.mutable_options()->mutable_form()->set_row_scaled(true);
  request.set_payload(std::string(size_t{65536} * 32, 1));
  auto call = Open(request);
  EXPECT_TRUE(Eventually([&] { return server_->gate().payload_used(0) > 0; }));
  EXPECT_TRUE(Eventually([&] { return server_->gate().payload_used(0) == 0; }));
  ExpectEnd(call.get(), grpc::DEADLINE_EXCEEDED, ErrorDetail::REASON_DEADLINE);
  EXPECT_TRUE(UsedBecomes(0));
  // A client that does not even read the error is disconnected.
  auto deaf = Open(request);
  EXPECT_TRUE(Eventually([&] { return server_->gate().payload_used(0) > 0; }));
  EXPECT_TRUE(UsedBecomes(0));
  EXPECT_FALSE(End(deaf.get()).status.ok());
  // A client that reads gets all maxima.
  call = Open(request);
  v1::StreamReply reply;
  ASSERT_TRUE(reply.ParseFromString(call->Receive().value_or("")));
  EXPECT_EQ(reply.maxima().rowwise_size(), 65536);
  call->Cancel();
  EXPECT_TRUE(UsedBecomes(0));
}

// The message is far longer than allowed, so none of it is read.
TEST_F(StreamAmaxTest, RefusesATooLongReducedAmax) {
  StartFake();
  auto call = Await(64);
  v1::StreamRequest answer;
  answer.mutable_reduced_amax()->mutable_rowwise_values()->Resize(1 << 20, 1);
  call->Send(answer.SerializeAsString());
  const RpcResult result = End(call.get());
  EXPECT_FALSE(result.status.ok());
  EXPECT_TRUE(UsedBecomes(0));
}

}  // namespace
}  // namespace quantd
