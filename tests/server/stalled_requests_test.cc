// Tests of requests that arrive slowly or not at all, and of the memory that
// they hold.
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "absl/time/clock.h"
#include "tests/attack/http2_peer.h"
#include "tests/server/server_fixture.h"

namespace quantd {
namespace {

// Declares a request of 8 MiB by default. Messages may use a third of the
// budget of 28 MiB, which holds one such request.
RpcOptions Large(size_t bytes = 8 << 20) {
  RpcOptions options;
  options.declared = std::to_string(bytes);
  return options;
}

TEST_F(ServerTest, SilentCallYieldsToOthers) {
  options_.memory_budget = 28 << 20;
  StartFake();
  RpcCall silent(channel_, Large());
  ASSERT_TRUE(Eventually([&] { return server_->gate().used() > 0; }));
  const std::string request = QuantizeOnes(4096).SerializeAsString();
  const RpcResult other =
      Call(Dial(server_->address()), request, Large(request.size()));
  EXPECT_TRUE(other.status.ok()) << other.status.error_message();
  const RpcResult result = silent.Finish();
  EXPECT_EQ(result.status.error_code(), grpc::RESOURCE_EXHAUSTED);
  ASSERT_TRUE(result.detail.has_value());
  EXPECT_EQ(result.detail->reason(), v1::ErrorDetail::REASON_BUSY);
  EXPECT_FALSE(result.pushback.empty());
}

TEST_F(ServerTest, UndeclaredRequestIsCountedAsItArrivesOrRefused) {
  options_.memory_budget = 28 << 20;
  StartFake();
  const auto peer = attack::Http2Peer::Connect(
      {.address = server_->address()}, {},
      std::chrono::steady_clock::now() + std::chrono::minutes(1));
  ASSERT_NE(peer, nullptr);
  const auto begin = [&] {
    const uint32_t call = peer->Open("/quantd.v1.Quantd/Quantize");
    EXPECT_TRUE(peer->BeginMessage(call, 8 << 20));
    EXPECT_EQ(peer->SendZeros(call, 2 << 20), size_t{2} << 20);
    return call;
  };
  const uint32_t first = begin();
  EXPECT_TRUE(Eventually(
      [&] { return server_->gate().receiving_used() >= size_t{2} << 20; }));
  EXPECT_TRUE(peer->IsOpen(first));
  EXPECT_TRUE(peer->Reset(first));
  EXPECT_TRUE(Eventually([&] { return server_->gate().used() == 0; }));
  // Another call has declared all memory for messages.
  RpcCall silent(channel_, Large());
  EXPECT_TRUE(Eventually(
      [&] { return server_->gate().receiving_used() >= size_t{8} << 20; }));
  const uint32_t second = begin();
  EXPECT_TRUE(peer->AwaitEnd(second, std::chrono::seconds(30)));
  EXPECT_GE(server_->gate().receiving_used(), size_t{8} << 20);
  silent.Cancel();
}

TEST_F(ServerTest, LateRequestIsNotEndedBecauseOfOtherCalls) {
  StartFake();
  const std::string request = QuantizeOnes(1).SerializeAsString();
  RpcCall late(channel_, Large(request.size()));
  ASSERT_TRUE(Eventually([&] { return server_->gate().used() > 0; }));
  // The server checks the late call while it is alone, and again after the
  // other call.
  absl::SleepFor(absl::Milliseconds(50));
  const std::string other = QuantizeOnes(2048).SerializeAsString();
  EXPECT_TRUE(Call(channel_, other).status.ok());
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_TRUE(late.Send(request));
  EXPECT_TRUE(late.HalfClose());
  EXPECT_TRUE(late.Receive().has_value());
  const RpcResult result = late.Finish();
  EXPECT_TRUE(result.status.ok()) << result.status.error_message();
}

}  // namespace
}  // namespace quantd
