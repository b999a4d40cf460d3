// Tests of streams that either side ends early: all memory is released, and
// slow streams block no other call.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "tests/server/server_fixture.h"

namespace quantd {
namespace {

using v1::ErrorDetail;

constexpr int64_t kRows = 4096;  // 8 MiB
constexpr size_t kChunk = 1 << 20;

std::string Start(int64_t rows) {
  v1::QuantizeRequest request = QuantizeOnes(0);
  request.mutable_tensor()->set_shape(0, rows);
  v1::StreamRequest start;
  *start.mutable_quantize() = request;
  start.set_payload_bytes(rows * 2048);
  return start.SerializeAsString();
}

std::string Chunk(size_t bytes = kChunk) {
  v1::StreamRequest message;
  message.set_chunk(std::string(bytes, '\x3f'));
  return message.SerializeAsString();
}

RpcOptions Stream(absl::Duration deadline = absl::Minutes(2)) {
  RpcOptions options;
  options.method = "Stream";
  options.deadline = deadline;
  return options;
}

class StreamEndsTest : public ServerTest {
 protected:
  // Opens a stream of `rows` rows and sends `chunks` chunks.
  std::unique_ptr<RpcCall> Open(int chunks, int64_t rows = kRows,
                                absl::Duration deadline = absl::Minutes(2)) {
    auto call = std::make_unique<RpcCall>(channel_, Stream(deadline));
    EXPECT_TRUE(call->Send(Start(rows)));
    for (int i = 0; i < chunks; ++i) EXPECT_TRUE(call->Send(Chunk()));
    return call;
  }
  bool UsedBecomes(size_t bytes) {
    return Eventually([&] { return server_->gate().used() == bytes; });
  }
  size_t payload() { return server_->gate().payload_used(0); }
  void ExpectEnd(RpcCall* call, grpc::StatusCode code,
                 ErrorDetail::Reason reason) {
    while (call->Receive()) {
    }
    const RpcResult result = call->Finish();
    EXPECT_EQ(result.status.error_code(), code)
        << result.status.error_message();
    ASSERT_TRUE(result.detail.has_value()) << result.status.error_message();
    EXPECT_EQ(result.detail->reason(), reason);
  }
};

TEST_F(StreamEndsTest, CanBeCancelledAtEveryMessage) {
  StartFake();
  for (int chunks = 0; chunks <= 8; ++chunks) {
    const int begun = control_.begun();
    auto call = Open(chunks);
    if (chunks % 2 == 0) {
      ASSERT_TRUE(Eventually([&] { return control_.begun() > begun; }));
    }
    call->Cancel();
    EXPECT_EQ(call->Finish().status.error_code(), grpc::CANCELLED);
    EXPECT_TRUE(UsedBecomes(0)) << chunks;
  }
  // The connection ends with the call.
  auto call = Open(3);
  ASSERT_TRUE(Eventually([&] { return payload() > 0; }));
  call.reset();
  channel_.reset();
  EXPECT_TRUE(UsedBecomes(0));
}

TEST_F(StreamEndsTest, ExpiresAtEveryChunk) {
  StartFake();
  for (const int chunks : {0, 3, 8}) {
    auto call = Open(chunks, kRows, absl::Milliseconds(400));
    EXPECT_EQ(call->Finish().status.error_code(), grpc::DEADLINE_EXCEEDED);
    EXPECT_TRUE(UsedBecomes(0)) << chunks;
  }
}

TEST_F(StreamEndsTest, EndsAStalledStream) {
  options_.max_receive = absl::Seconds(3);
  StartFake();
  // The streams stall before the first message, between chunks, and after the
  // last chunk.
  RpcCall silent(channel_, Stream(absl::Hours(1)));
  ASSERT_TRUE(Eventually([&] { return server_->gate().used() > 0; }));
  EXPECT_TRUE(PassUntilUnused());
  ExpectEnd(&silent, grpc::DEADLINE_EXCEEDED, ErrorDetail::REASON_DEADLINE);
  for (const int chunks : {0, 3, 8}) {
    const int begun = control_.begun();
    auto call = Open(chunks, kRows, absl::Hours(1));
    ASSERT_TRUE(Eventually([&] { return control_.begun() > begun; }));
    EXPECT_TRUE(PassUntilUnused()) << chunks;
    ExpectEnd(call.get(), grpc::DEADLINE_EXCEEDED,
              ErrorDetail::REASON_DEADLINE);
  }
  // A stream that is slow at first but continues is not ended.
  auto call = Open(0, kRows, absl::Hours(1));
  for (int i = 0; i < 8; ++i) {
    Pass(1);
    ASSERT_TRUE(call->Send(Chunk()));
  }
  call->HalfClose();
  while (call->Receive()) {
  }
  EXPECT_TRUE(call->Finish().status.ok());
}

TEST_F(StreamEndsTest, HoldsTheDeclaredMemoryAndNoSlot) {
  StartFake(1);
  // Opens more streams than slots. Each holds its own memory, and that of a
  // chunk.
  std::vector<std::unique_ptr<RpcCall>> slow;
  constexpr int64_t kFew = 1024;  // 2 MiB
  for (int i = 0; i < 3; ++i) slow.push_back(Open(1, kFew));
  ASSERT_TRUE(Eventually([&] { return control_.begun() == 3; }));
  const size_t used = payload();
  EXPECT_GE(used, 3 * size_t{kFew} * 2048);
  EXPECT_LE(server_->gate().used() - used, 4 * kChunk);
  // Other calls are still served.
  EXPECT_TRUE(Call(channel_, QuantizeOnes(64).SerializeAsString()).status.ok());
  EXPECT_TRUE(Eventually([&] { return payload() == used; }));
  // FakeBackend has four stream slots. If stalled streams hold all of them, a
  // fifth stream takes one.
  slow.push_back(Open(1, kFew));
  ASSERT_TRUE(Eventually([&] { return control_.begun() == 5; }));
  EXPECT_EQ(server_->gate().streams_used(0), 4u);
  auto fifth = Open(0, 64);
  ASSERT_TRUE(fifth->Send(Chunk(64 * 2048)));
  ASSERT_TRUE(fifth->HalfClose());
  while (fifth->Receive()) {
  }
  const RpcResult result = fifth->Finish();
  EXPECT_TRUE(result.status.ok()) << result.status.error_message();
  for (auto& call : slow) call->Cancel();
  EXPECT_TRUE(UsedBecomes(0));
}

TEST_F(StreamEndsTest, StalledStreamYieldsToOthers) {
  options_.memory_budget = 28 << 20;
  options_.max_wait = absl::Seconds(30);
  StartFake();
  auto stalled = Open(1);
  ASSERT_TRUE(Eventually([&] { return control_.begun() == 1; }));
  // The budget cannot hold both streams.
  const RpcResult good =
      Call(Dial(server_->address()), QuantizeOnes(kRows).SerializeAsString());
  EXPECT_TRUE(good.status.ok()) << good.status.error_message();
  ExpectEnd(stalled.get(), grpc::RESOURCE_EXHAUSTED, ErrorDetail::REASON_BUSY);
}

// Many streams declare the largest size, send a little and stop.
TEST_F(StreamEndsTest, StalledStreamsStayWithinTheBudget) {
  options_.max_wait = absl::Seconds(3);
  options_.max_receive = absl::Seconds(3);
  StartReal({"cpu:0"});
  // This client connects before the crowd. Its connection has a share of its
  // own, so the crowd's streams do not starve it.
  const auto good = channel_;
  ASSERT_TRUE(Call(good, QuantizeOnes(64).SerializeAsString()).status.ok());
  std::atomic<bool> over{false};
  std::atomic<size_t> most{0};
  std::thread watcher([&] {
    while (!over) {
      most = std::max(most.load(), server_->gate().used());
      absl::SleepFor(absl::Milliseconds(1));
    }
  });
  std::vector<std::unique_ptr<RpcCall>> crowd;
  for (int i = 0; i < 60; ++i) {
    if (i % 15 == 0) channel_ = Dial(server_->address());
    auto call = std::make_unique<RpcCall>(channel_, Stream());
    if (call->Send(Start(kRows))) call->Send(Chunk(20 << 10));
    crowd.push_back(std::move(call));
  }
  int served = 0;
  for (int i = 0; i < 20; ++i) {
    served += Call(good, QuantizeOnes(64).SerializeAsString()).status.ok();
  }
  EXPECT_GE(served, 15);
  int typed = 0;
  for (auto& call : crowd) {
    while (call->Receive()) {
    }
    const RpcResult result = call->Finish();
    const auto code = result.status.error_code();
    EXPECT_TRUE(code == grpc::RESOURCE_EXHAUSTED ||
                code == grpc::DEADLINE_EXCEEDED || code == grpc::UNAVAILABLE)
        << result.status.error_message();
    typed += result.detail.has_value();
  }
  EXPECT_EQ(typed, 60);
  over = true;
  watcher.join();
  EXPECT_LE(most, options_.memory_budget);
  EXPECT_TRUE(UsedBecomes(0));
}

TEST_F(StreamEndsTest, EndsAStreamThatDoesNotRead) {
  options_.memory_budget = 96 << 20;
  StartReal({"cpu:0"});
  v1::StreamRequest start;
  v1::ApplyRhtRequest* const rotate = start.mutable_apply_rht();
  rotate->mutable_tensor()->set_dtype(v1::DTYPE_BF16);
  rotate->mutable_tensor()->add_shape(8 << 10);
  rotate->mutable_tensor()->add_shape(1 << 10);
  rotate->mutable_options()->set_output(v1::DTYPE_F32);
  start.set_payload_bytes(16 << 20);
  RpcCall call(channel_, Stream());
  ASSERT_TRUE(call.Send(start.SerializeAsString()));
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(call.Send(Chunk()));
  call.HalfClose();
  ASSERT_TRUE(Eventually(
      [&] { return payload() > 0 && server_->gate().receiving_used() == 0; }));
  EXPECT_TRUE(PassUntilUnused());
  call.Cancel();
  EXPECT_FALSE(call.Finish().status.ok());
}

TEST_F(StreamEndsTest, DrainLetsAStreamFinish) {
  StartFake();
  auto call = Open(4);
  ASSERT_TRUE(Eventually([&] { return control_.begun() == 1; }));
  std::thread drain([&] { EXPECT_TRUE(server_->Drain(absl::ZeroDuration())); });
  EXPECT_TRUE(Eventually([&] { return server_->calls().draining(); }));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(call->Send(Chunk()));
  call->HalfClose();
  EXPECT_TRUE(call->Receive().has_value());
  while (call->Receive()) {
  }
  EXPECT_TRUE(call->Finish().status.ok());
  drain.join();
}

TEST_F(StreamEndsTest, DrainTimeoutEndsAStream) {
  options_.drain_timeout = absl::Milliseconds(200);
  StartFake();
  auto call = Open(4);
  ASSERT_TRUE(Eventually([&] { return control_.begun() == 1; }));
  EXPECT_FALSE(server_->Drain(absl::ZeroDuration()));
  EXPECT_FALSE(call->Finish().status.ok());
  server_.reset();
}

TEST_F(StreamEndsTest, ReportsADeviceFault) {
  StartFake();
  control_.Fail(absl::InternalError("broken"));
  auto call = Open(8);
  call->HalfClose();
  while (call->Receive()) {
  }
  const RpcResult result = call->Finish();
  EXPECT_TRUE(result.status.error_code() == grpc::UNAVAILABLE ||
              result.status.error_code() == grpc::INTERNAL)
      << result.status.error_message();
  EXPECT_FALSE(result.request_id.empty());
  EXPECT_TRUE(UsedBecomes(0));
  control_.Fail(absl::OkStatus());
}

}  // namespace
}  // namespace quantd
