// Tests of replies, and of errors of a server that cannot serve.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "quantd.grpc.pb.h"
#include "tests/server/server_fixture.h"

namespace quantd {
namespace {

using v1::ErrorDetail;

class ServiceTest : public ServerTest {
 protected:
  void SetUp() override { StartReal({"cpu:0"}); }
};

TEST_F(ServiceTest, QuantizeReplyFollowsTheProto) {
  const v1::QuantizeRequest request = QuantizeOnes(256);
  const RpcResult result = Call(channel_, request.SerializeAsString());
  ASSERT_TRUE(result.status.ok()) << result.status.error_message();
  v1::QuantizeReply reply;
  ASSERT_TRUE(reply.ParseFromString(result.reply));
  EXPECT_EQ(reply.report().device(), "cpu:0");
  EXPECT_EQ(reply.request_id(), result.request_id);
  EXPECT_EQ(reply.options().usage(), v1::USAGE_ROWWISE);
  ASSERT_EQ(reply.tensors_size(), 3);
  const v1::TensorRef& data = reply.tensors(0);
  EXPECT_EQ(data.kind(), v1::TENSOR_KIND_ROWWISE_DATA);
  ASSERT_EQ(data.size(), 256u * 512);
  // 1 is the largest number of its block, so every nibble is 7, the code of 6.
  EXPECT_EQ(reply.payload().substr(data.offset(), data.size()),
            std::string(256 * 512, '\x77'));
}

// Without this, one thread would read the sockets of all connections.
TEST_F(ServiceTest, AdjustsTheReadersOfSockets) {
  const absl::Time start = SteadyNow();
  EXPECT_TRUE(
      Eventually([&] { return server_->queue_threads().looked() > start; }));
}

TEST_F(ServiceTest, ServesReflectionAndHealth) {
  const RpcOptions options;
  RpcCall reflection(
      channel_,
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      options);
  ASSERT_TRUE(reflection.Send(std::string("\x3a\x01*", 3)));  // list_services
  const auto services = reflection.Receive();
  ASSERT_TRUE(services.has_value());
  EXPECT_NE(services->find("quantd.v1.Quantd"), std::string::npos);
  EXPECT_NE(services->find("grpc.health.v1.Health"), std::string::npos);
  // The next request of the stream is file_containing_symbol.
  ASSERT_TRUE(reflection.Send("\x22\x10quantd.v1.Quantd"));
  const auto file = reflection.Receive();
  ASSERT_TRUE(file.has_value());
  EXPECT_NE(file->find("QuantizeRequest"), std::string::npos);
  ASSERT_TRUE(reflection.Send("\x22\x04what"));
  EXPECT_NE(reflection.Receive().value_or("").find("not known: what"),
            std::string::npos);
  ASSERT_TRUE(reflection.HalfClose());
  EXPECT_FALSE(reflection.Receive().has_value());
  EXPECT_TRUE(reflection.Finish().status.ok());
  for (const std::string service : {"", "quantd.v1.Quantd"}) {
    RpcCall health(channel_, "/grpc.health.v1.Health/Check", options);
    ASSERT_TRUE(health.Send(
        std::string{'\x0a', static_cast<char>(service.size())} + service));
    EXPECT_EQ(health.Receive().value_or("none"), "\x08\x01");
  }
}

TEST_F(ServiceTest, HealthOfUnknownServices) {
  const std::string unknown("\x0a\x04what", 6);
  RpcCall check(channel_, "/grpc.health.v1.Health/Check", RpcOptions());
  ASSERT_TRUE(check.Send(unknown));
  EXPECT_FALSE(check.Receive().has_value());
  EXPECT_EQ(check.Finish().status.error_code(), grpc::NOT_FOUND);
  RpcCall watch(channel_, "/grpc.health.v1.Health/Watch", RpcOptions());
  ASSERT_TRUE(watch.Send(unknown));
  EXPECT_EQ(watch.Receive().value_or("none"), "\x08\x03");
}

TEST_F(ServiceTest, LimitsHealthWatchesOfAConnection) {
  const auto watch = [&] {
    auto call = std::make_unique<RpcCall>(
        channel_, "/grpc.health.v1.Health/Watch", RpcOptions());
    EXPECT_TRUE(call->Send(""));
    return call;
  };
  std::vector<std::unique_ptr<RpcCall>> calls;
  for (int i = 0; i < 16; ++i) {
    calls.push_back(watch());
    EXPECT_EQ(calls.back()->Receive().value_or("none"), "\x08\x01") << i;
  }
  EXPECT_EQ(watch()->Finish().status.error_code(), grpc::RESOURCE_EXHAUSTED);
  calls.pop_back();
  EXPECT_TRUE(Eventually([&] { return watch()->Receive().has_value(); }));
}

class LimitTest : public ServerTest {};

TEST_F(LimitTest, ReportsTooLargeInsteadOfBusy) {
  options_.max_request_bytes = 64 << 10;
  StartReal({"cpu"});
  const std::string large = QuantizeOnes(64).SerializeAsString();
  for (const bool declared : {false, true}) {
    RpcOptions options;
    if (declared) options.declared = std::to_string(large.size());
    const RpcResult result = Call(channel_, large, options);
    EXPECT_EQ(result.status.error_code(), grpc::INVALID_ARGUMENT);
    ASSERT_TRUE(result.detail.has_value());
    EXPECT_EQ(result.detail->reason(), ErrorDetail::REASON_TOO_LARGE);
    EXPECT_EQ(result.detail->limit(), 64u << 10);
  }
  EXPECT_TRUE(Call(channel_, QuantizeOnes(31).SerializeAsString()).status.ok());
}

TEST_F(LimitTest, ReservesMoreForLargeOutputsOrRefuses) {
  options_.memory_budget = 32 << 20;  // 20 MiB for staging and output
  StartReal({"cpu"});
  // A single row quantized columnwise takes 2 bytes in and 12 bytes out for
  // each element.
  const auto row = [](int64_t columns) {
    v1::QuantizeRequest request;
    request.mutable_tensor()->set_dtype(v1::DTYPE_BF16);
    request.mutable_tensor()->add_shape(1);
    request.mutable_tensor()->add_shape(columns);
    request.mutable_options()->set_format(v1::FORMAT_NVFP4);
    request.mutable_options()->set_usage(v1::USAGE_COLUMNWISE);
    request.set_payload(std::string(columns * 2, 0));
    return request.SerializeAsString();
  };
  RpcOptions options;
  const std::string grows = row(1 << 20);
  options.declared = std::to_string(grows.size());
  EXPECT_TRUE(Call(channel_, grows, options).status.ok());
  const std::string never = row(3 << 20);
  options.declared = std::to_string(never.size());
  const RpcResult result = Call(channel_, never, options);
  ASSERT_TRUE(result.detail.has_value()) << result.status.error_message();
  EXPECT_EQ(result.detail->reason(), ErrorDetail::REASON_TOO_LARGE);
  EXPECT_EQ(result.detail->field(), "memory for input, output and scratch");
  EXPECT_EQ(result.detail->limit(), server_->shares().per_device);
  EXPECT_THAT(result.status.error_message(),
              testing::HasSubstr("split the tensor or raise the memory"));
}

TEST_F(LimitTest, ServesWithBothCpuDevices) {
  StartReal({"cpu:0", "cpu:1"});
  std::set<std::string> devices;
  for (int i = 0; i < 8; ++i) {
    // The small requests run on the network thread, the large ones on workers.
    const RpcResult result =
        Call(channel_, QuantizeOnes(i % 2 ? 4 : 128).SerializeAsString());
    v1::QuantizeReply reply;
    ASSERT_TRUE(reply.ParseFromString(result.reply));
    devices.insert(reply.report().device());
  }
  EXPECT_EQ(devices, (std::set<std::string>{"cpu:0", "cpu:1"}));
  v1::GetServerInfoReply info;
  grpc::ClientContext context;
  ASSERT_TRUE(
      v1::Quantd::NewStub(channel_)->GetServerInfo(&context, {}, &info).ok());
  ASSERT_EQ(info.devices_size(), 2);
  EXPECT_GT(info.devices(0).jobs(), 0u);
  EXPECT_GT(info.devices(1).jobs(), 0u);
  EXPECT_EQ(info.limits().memory_budget_bytes(), options_.memory_budget);
  EXPECT_GT(info.limits().max_request_bytes(), 0u);
}

TEST_F(LimitTest, DeviceFaultNamesOnlyTheDevice) {
  // If all devices that a call may try fail, the request is the likely cause.
  std::vector<std::unique_ptr<Backend>> backends;
  for (int i = 0; i < 3; ++i) {
    backends.push_back(std::make_unique<FakeBackend>(
        &control_, fmt::format("fake:{}", i), 2, options_.memory_budget));
  }
  auto server = Server::StartWith(options_, std::move(backends));
  ASSERT_THAT(server, IsOk());
  server_ = *std::move(server);
  channel_ = Dial(server_->address());
  control_.Fail(absl::InternalError("pointer 0x1234 in /some/file.cu:12"));
  const RpcResult result = Call(channel_, QuantizeOnes(4).SerializeAsString());
  EXPECT_EQ(result.status.error_code(), grpc::INTERNAL);
  ASSERT_TRUE(result.detail.has_value());
  EXPECT_EQ(result.detail->reason(), ErrorDetail::REASON_DEVICE_FAULT);
  EXPECT_EQ(result.status.error_message().find('/'), std::string::npos);
  EXPECT_EQ(result.status.error_message().find("0x"), std::string::npos);
  EXPECT_NE(result.status.error_message().find("fake:"), std::string::npos);
}

TEST_F(LimitTest, DoesNotRevealTheFaultIfNoDeviceIsLeft) {
  StartFake();
  control_.Fail(absl::InternalError("pointer 0x1234 in /some/file.cu:12"));
  const RpcResult result = Call(channel_, QuantizeOnes(4).SerializeAsString());
  EXPECT_EQ(result.status.error_code(), grpc::UNAVAILABLE);
  ASSERT_TRUE(result.detail.has_value());
  EXPECT_EQ(result.detail->reason(), ErrorDetail::REASON_NO_DEVICE);
  EXPECT_EQ(result.status.error_message().find('/'), std::string::npos);
  EXPECT_EQ(result.status.error_message().find("0x"), std::string::npos);
}

}  // namespace
}  // namespace quantd
