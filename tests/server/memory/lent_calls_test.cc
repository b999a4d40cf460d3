// Tests of calls on shared memory: their replies, the memory that they hold,
// and its release.
#include <sys/socket.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "kernels/device/health/self_test.h"
#include "tests/server/memory/ranges_fixture.h"
#include "tests/server/test_peer.h"

namespace quantd {
namespace {

using grpc::StatusCode;

TEST_F(Ranges, ReplyDescribesTheOutputsInMemory) {
  StartReal({"cpu:0"});
  const Shared shared = Share();
  const v1::QuantizeRequest ones = QuantizeOnes(kRows);
  const RpcResult plain = Call(channel_, ones.SerializeAsString());
  v1::QuantizeReply expected;
  ASSERT_TRUE(expected.ParseFromString(plain.reply));
  std::memcpy(shared.data, ones.payload().data(), kInput);

  const RpcResult lent = Call(channel_, Lent(shared.name).SerializeAsString());
  ASSERT_TRUE(lent.status.ok()) << lent.status.error_message();
  v1::QuantizeReply got;
  ASSERT_TRUE(got.ParseFromString(lent.reply));
  ASSERT_EQ(got.tensors_size(), 3);
  EXPECT_EQ(got.payload().size(), sizeof(float));  // the amax
  const auto bytes = [&](const v1::QuantizeReply& reply, int i) {
    const v1::TensorRef& ref = reply.tensors(i);
    if (!ref.has_memory())
      return reply.payload().substr(ref.offset(), ref.size());
    EXPECT_EQ(ref.memory().region(), shared.name);
    EXPECT_EQ(ref.memory().size(), ref.size());
    EXPECT_EQ(ref.offset(), 0u);
    return std::string(
        reinterpret_cast<char*>(shared.data) + ref.memory().offset(),
        ref.size());
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(got.tensors(i).has_memory(), i != 2);
    EXPECT_TRUE(bytes(got, i) == bytes(expected, i)) << i;
  }
  // With all outputs in shared memory, the reply has no payload.
  v1::QuantizeRequest all = Lent(shared.name);
  AddOutput(&all, v1::TENSOR_KIND_ROWWISE_AMAX, shared.name, kSize - 4, 4);
  const RpcResult nothing = Call(channel_, all.SerializeAsString());
  ASSERT_TRUE(nothing.status.ok());
  ASSERT_TRUE(got.ParseFromString(nothing.reply));
  EXPECT_TRUE(got.payload().empty());
  EXPECT_TRUE(bytes(got, 2) == bytes(expected, 2));
  EXPECT_LT(nothing.reply.size(), 400u);
}

// Returns the name of a device whose first job after the self-tests has a
// fault.
std::string Failing(const std::string& fault, const std::string& length = "") {
  return "fault:cpu:0:" + fault + "@" +
         std::to_string(KnownAnswers().size() + 1) + length;
}

TEST_F(Ranges, RetriesAFailedJobOnTheSameMemory) {
  StartReal({Failing("once")});
  const Shared shared = Share();
  const v1::QuantizeRequest ones = QuantizeOnes(kRows);
  std::memcpy(shared.data, ones.payload().data(), kInput);
  const RpcResult result =
      Call(channel_, Lent(shared.name).SerializeAsString());
  EXPECT_TRUE(result.status.ok()) << result.status.error_message();
  const std::string codes(reinterpret_cast<char*>(shared.data) + kInput,
                          kCodes);
  v1::QuantizeReply plain;
  ASSERT_TRUE(
      plain.ParseFromString(Call(channel_, ones.SerializeAsString()).reply));
  EXPECT_TRUE(codes == plain.payload().substr(0, kCodes));
}

TEST_F(Ranges, HangingJobIsReportedAsADeadlineSinceItMayStillWrite) {
  options_.max_job = absl::Milliseconds(200);
  StartReal({Failing("hang", "/1500")});
  const Shared shared = Share();
  const RpcResult result =
      Call(channel_, Lent(shared.name).SerializeAsString());
  EXPECT_EQ(result.status.error_code(), StatusCode::DEADLINE_EXCEEDED);
  ASSERT_TRUE(result.detail.has_value());
  EXPECT_EQ(result.detail->reason(), v1::ErrorDetail::REASON_DEADLINE);
  // The hang ends after a while, and the device works again.
  EXPECT_TRUE(Eventually([&] {
    return Call(channel_, Lent(shared.name).SerializeAsString()).status.ok();
  }));
}

TEST_F(Ranges, DequantizeTakesItsAmaxAsFieldOrRange) {
  StartReal({"cpu:0"});
  const Shared shared = Share();
  v1::DequantizeRequest request;
  request.mutable_tensor()->add_shape(kRows);
  request.mutable_tensor()->add_shape(1024);
  request.mutable_options()->set_format(v1::FORMAT_NVFP4);
  request.mutable_options()->set_output(v1::DTYPE_F32);
  v1::LentMemory* const memory = request.mutable_memory();
  Set(memory->add_inputs(), shared.name, 0, kCodes);
  Set(memory->add_inputs(), shared.name, kCodes, kScales);
  RpcOptions dequantize;
  dequantize.method = "Dequantize";
  ExpectRefused(request.SerializeAsString(), "Dequantize", "memory.inputs",
                "a range of rowwise_amax", "only 2 ranges");
  request.set_amax(2688);
  // Writes codes of 3.0 with the scale 1.
  for (size_t i = 0; i < kCodes; ++i) shared.data[i] = std::byte{0x42};
  std::memset(shared.data + kCodes, 0x38, kScales);
  const RpcResult field =
      Call(channel_, request.SerializeAsString(), dequantize);
  ASSERT_TRUE(field.status.ok()) << field.status.error_message();
  v1::DequantizeReply reply;
  ASSERT_TRUE(reply.ParseFromString(field.reply));
  float first[2];
  std::memcpy(first, reply.payload().data(), sizeof(first));
  EXPECT_EQ(first[0], 1);
  EXPECT_EQ(first[1], 2);
  // The amax as a range gives the same result.
  request.clear_amax();
  const float amax = 2688;
  std::memcpy(shared.data + kSize - 4, &amax, 4);
  Set(memory->add_inputs(), shared.name, kSize - 4, 4);
  const RpcResult range =
      Call(channel_, request.SerializeAsString(), dequantize);
  ASSERT_TRUE(range.status.ok()) << range.status.error_message();
  v1::DequantizeReply again;
  ASSERT_TRUE(again.ParseFromString(range.reply));
  EXPECT_TRUE(again.payload() == reply.payload());
  // It is an error to give both, or refs without a payload.
  request.set_amax(1);
  ExpectRefused(request.SerializeAsString(), "Dequantize", "memory.inputs",
                "2 ranges", "3");
  request.clear_amax();
  request.add_tensors()->set_kind(v1::TENSOR_KIND_ROWWISE_DATA);
  ExpectRefused(request.SerializeAsString(), "Dequantize", "tensors",
                "none with memory.inputs", "1");
}

TEST_F(Ranges, CallsReserveNoPayloadMemoryAndAreCounted) {
  constexpr int64_t kMany = 32 << 10;
  constexpr size_t kBytes = kMany * 2048;
  constexpr size_t kMade = kMany * (512 + 64);
  options_.memory_budget = 16 << 20;
  options_.shared_memory_limit = 4 * kBytes;
  options_.metrics_address = "127.0.0.1:0";
  StartReal({"cpu:0"});
  const Shared shared = Share(false, kBytes + kMade + 4096);
  v1::QuantizeRequest request = QuantizeOnes(1);
  request.clear_payload();
  request.mutable_tensor()->set_shape(0, kMany);
  Set(request.mutable_memory()->add_inputs(), shared.name, 0, kBytes);
  const auto metric = [&](const std::string& name) {
    const std::string page = Get(server_->metrics_address(), "/metrics");
    const size_t at = page.find("\n" + name + " ");
    EXPECT_NE(at, std::string::npos) << name;
    return std::stoull(page.substr(at + name.size() + 2));
  };
  // By message, the output would exceed the budget.
  RpcResult result = Call(channel_, request.SerializeAsString());
  ASSERT_TRUE(result.detail.has_value());
  EXPECT_EQ(result.detail->reason(), v1::ErrorDetail::REASON_TOO_LARGE);
  AddOutput(&request, v1::TENSOR_KIND_ROWWISE_DATA, shared.name, kBytes,
            kMany * 512);
  AddOutput(&request, v1::TENSOR_KIND_ROWWISE_SCALE, shared.name,
            kBytes + kMany * 512, kMany * 64);
  result = Call(channel_, request.SerializeAsString());
  EXPECT_TRUE(result.status.ok()) << result.status.error_message();
  const std::string calls = "quantd_shared_bytes_total{method=\"Quantize\",";
  EXPECT_TRUE(Eventually(
      [&] { return metric(calls + "direction=\"in\"}") == kBytes; }));
  EXPECT_EQ(metric(calls + "direction=\"out\"}"), kMade);
  EXPECT_EQ(metric("quantd_shared_regions"), 1u);
  EXPECT_EQ(metric("quantd_shared_memory_bytes"), kBytes + kMade + 4096);
  EXPECT_EQ(metric("quantd_shared_memory_limit_bytes"), 4 * kBytes);
  EXPECT_EQ(metric("quantd_shared_refusals_total"), 0u);
}

TEST_F(Ranges, RegionInUseOutlivesItsConnection) {
  StartFake();
  control_.Close();
  auto shared = std::make_unique<Shared>(Share());
  RpcResult result;
  std::thread call(
      [&] { result = Call(channel_, Lent(shared->name).SerializeAsString()); });
  ASSERT_TRUE(control_.AwaitRunning(1));
  const std::string name = shared->name;
  shutdown(shared->socket(), SHUT_WR);
  // The region's name is removed, but its memory is not. A call that arrives
  // before the server has seen the end of the connection waits for the device.
  RpcOptions soon;
  soon.deadline = absl::Milliseconds(200);
  ASSERT_TRUE(Eventually([&] {
    const auto refused = Call(channel_, Lent(name).SerializeAsString(), soon);
    return refused.detail &&
           refused.detail->field() == "memory.inputs[0].region";
  }));
  EXPECT_EQ(server_->memory_door()->use().regions, 1u);
  char end = 0;
  EXPECT_EQ(recv(shared->socket(), &end, 1, MSG_DONTWAIT), -1);
  control_.Open();
  call.join();
  EXPECT_TRUE(result.status.ok()) << result.status.error_message();
  EXPECT_EQ(recv(shared->socket(), &end, 1, 0), 0);
  EXPECT_EQ(server_->memory_door()->use().regions, 0u);
  // The fake device uses no host memory in place, so the server has copied the
  // output, bytes of 0x5a, into the region.
  EXPECT_EQ(shared->data[kInput], std::byte{0x5a});
  EXPECT_EQ(shared->data[0], std::byte{0});
}

TEST_F(Ranges, DeadlinesCancellationsAndDrainsReleaseRegions) {
  StartFake(1);
  control_.Close();
  const Shared shared = Share();
  const std::string request = Lent(shared.name).SerializeAsString();
  std::thread first([&] { Call(channel_, request); });
  ASSERT_TRUE(control_.AwaitRunning(1));
  // The call waits for the slot.
  RpcOptions soon;
  soon.deadline = absl::Milliseconds(200);
  EXPECT_EQ(Call(channel_, request, soon).status.error_code(),
            StatusCode::DEADLINE_EXCEEDED);
  RpcCall cancelled(channel_, RpcOptions{});
  ASSERT_TRUE(cancelled.Send(request));
  absl::SleepFor(absl::Milliseconds(100));
  cancelled.Cancel();
  EXPECT_EQ(cancelled.Finish().status.error_code(), StatusCode::CANCELLED);
  // The server notices the end of the call a moment later.
  EXPECT_TRUE(Eventually([&] { return server_->calls().accepted() == 1; }));
  control_.Open();
  first.join();
  EXPECT_EQ(control_.begun(), 1);
}

}  // namespace
}  // namespace quantd
