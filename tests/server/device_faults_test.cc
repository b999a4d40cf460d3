// Tests of devices that fail during calls, which must not lose calls.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "kernels/device/devices.h"
#include "kernels/device/health/fault_backend.h"
#include "server/device/device_monitor.h"
#include "tests/server/server_fixture.h"
#include "tests/server/test_peer.h"

namespace quantd {
namespace {

using v1::ErrorDetail;

// A request of 128 KiB runs on a worker, one of 8 KiB on the network thread.
std::string Request(bool small = false) {
  return QuantizeOnes(small ? 4 : 64).SerializeAsString();
}

class DeviceFaultsTest : public ServerTest {
 protected:
  void Start(int devices) {
    std::vector<std::unique_ptr<Backend>> backends;
    for (int i = 0; i < devices; ++i) {
      controls_.push_back(std::make_shared<FaultControl>());
      auto cpu = OpenBackend(
          "cpu:" + std::to_string(i),
          {.memory_limit = options_.memory_budget, .slots = 2, .threads = 1});
      ASSERT_THAT(cpu, IsOk());
      backends.push_back(MakeFaultBackend("fault:cpu:" + std::to_string(i),
                                          *std::move(cpu), controls_.back()));
    }
    auto server = Server::StartWith(options_, std::move(backends));
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
    channel_ = Dial(server_->address());
    expected_ = Payload(Call(channel_, Request()));
    expected_small_ = Payload(Call(channel_, Request(true)));
    ASSERT_FALSE(expected_.empty());
  }
  void TearDown() override {
    for (const auto& control : controls_) control->Heal();
    ServerTest::TearDown();
  }
  static std::string Payload(const RpcResult& result) {
    v1::QuantizeReply reply;
    EXPECT_TRUE(result.status.ok()) << result.status.error_message();
    EXPECT_TRUE(reply.ParseFromString(result.reply));
    return reply.payload();
  }
  static std::string DeviceOf(const RpcResult& result) {
    v1::QuantizeReply reply;
    reply.ParseFromString(result.reply);
    return reply.report().device();
  }
  // Returns the serving status; 1 is SERVING.
  int Health() {
    const RpcResult result = [&] {
      RpcCall call(channel_, "/grpc.health.v1.Health/Check", {});
      EXPECT_TRUE(call.Send(std::string()));
      EXPECT_TRUE(call.HalfClose());
      RpcResult r;
      r.reply = call.Receive().value_or("");
      r.status = call.Finish().status;
      return r;
    }();
    return result.reply.size() == 2 ? result.reply[1] : -1;
  }
  // Makes many calls while `meanwhile` runs, and checks every reply.
  void Load(const std::function<void()>& meanwhile) {
    std::atomic<int> done = 0;
    std::vector<std::thread> clients;
    for (int c = 0; c < 4; ++c) {
      clients.emplace_back([&, c] {
        const auto channel = Dial(server_->address());
        for (int i = 0; i < 50; ++i) {
          const bool small = (i + c) % 2 == 0;
          EXPECT_TRUE(Payload(Call(channel, Request(small))) ==
                      (small ? expected_small_ : expected_));
          ++done;
        }
      });
    }
    EXPECT_TRUE(Eventually([&] { return done >= 20; }));
    meanwhile();
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(done, 200);
  }

  std::vector<std::shared_ptr<FaultControl>> controls_;
  std::string expected_;
  std::string expected_small_;
};

TEST_F(DeviceFaultsTest, NoCallIsLostIfOneOfTwoDevicesDies) {
  Start(2);
  Load([&] { controls_[0]->Next(InjectedFault::kSticky); });
  EXPECT_EQ(Health(), 1);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(DeviceOf(Call(channel_, Request(i % 2 == 0))), "fault:cpu:1");
  }
  // The device recovers.
  controls_[0]->Heal();
  const absl::Time healed = absl::Now();
  EXPECT_TRUE(Eventually(
      [&] { return DeviceOf(Call(channel_, Request())) == "fault:cpu:0"; }));
  std::printf("recovered after %.1f ms\n",
              absl::ToDoubleMilliseconds(absl::Now() - healed));
}

TEST_F(DeviceFaultsTest, NoCallIsLostByFaultsOfSingleJobs) {
  Start(2);
  // A fault may hit a self-test instead of a job.
  Load([&] {
    for (int i = 0; i < 10; ++i) {
      controls_[0]->Next(
          i % 3 == 0 ? InjectedFault::kOutOfMemory : InjectedFault::kOnce,
          absl::ZeroDuration());
      absl::SleepFor(absl::Milliseconds(5));
    }
  });
  EXPECT_EQ(Health(), 1);
}

TEST_F(DeviceFaultsTest, CallsWaitForTheOnlyDevicesSelfTest) {
  Start(1);
  Load([&] {
    controls_[0]->Next(InjectedFault::kOutOfMemory, absl::ZeroDuration());
  });
  EXPECT_EQ(Health(), 1);
  // If the input is already dropped, the client must send the call again.
  controls_[0]->Next(InjectedFault::kOnce);
  const RpcResult result = Call(channel_, Request());
  EXPECT_EQ(result.status.error_code(), grpc::UNAVAILABLE);
  ASSERT_TRUE(result.detail.has_value());
  EXPECT_EQ(result.detail->reason(), ErrorDetail::REASON_NO_DEVICE);
  EXPECT_EQ(Payload(Call(channel_, Request())), expected_);
}

TEST_F(DeviceFaultsTest, ReportsNoDeviceIfAllAreOutOfMemory) {
  Start(3);
  for (const auto& c : controls_) c->Next(InjectedFault::kOutOfMemory);
  const RpcResult result = Call(channel_, Request());
  ASSERT_TRUE(result.detail.has_value());
  EXPECT_EQ(result.detail->reason(), ErrorDetail::REASON_NO_DEVICE);
}

TEST_F(DeviceFaultsTest, ReportsTheLossOfBothDevicesAndRecovers) {
  options_.metrics_address = "127.0.0.1:0";
  Start(2);
  const auto ready = [&] {
    return Get(server_->metrics_address(), "/readyz")
        .starts_with("HTTP/1.1 200 ");
  };
  EXPECT_TRUE(ready());
  const absl::Time broken = absl::Now();
  for (const auto& control : controls_) {
    control->Next(InjectedFault::kSticky);
  }
  const RpcResult result = Call(channel_, Request());
  EXPECT_EQ(result.status.error_code(), grpc::UNAVAILABLE);
  ASSERT_TRUE(result.detail.has_value());
  EXPECT_EQ(result.detail->reason(), ErrorDetail::REASON_NO_DEVICE);
  EXPECT_GE(result.detail->retry_delay_ms(), 50u);
  EXPECT_EQ(result.pushback, std::to_string(result.detail->retry_delay_ms()));
  EXPECT_TRUE(Eventually([&] { return Health() == 2; }));
  std::printf("both lost and reported after %.1f ms\n",
              absl::ToDoubleMilliseconds(absl::Now() - broken));
  EXPECT_FALSE(ready());
  // The next call is refused before its payload is sent.
  const RpcResult next = Call(channel_, Request(true));
  ASSERT_TRUE(next.detail.has_value());
  EXPECT_EQ(next.detail->reason(), ErrorDetail::REASON_NO_DEVICE);

  for (const auto& control : controls_) control->Heal();
  const absl::Time healed = absl::Now();
  EXPECT_TRUE(Eventually([&] { return Health() == 1; }));
  std::printf("serving again after %.1f ms\n",
              absl::ToDoubleMilliseconds(absl::Now() - healed));
  EXPECT_TRUE(ready());
  EXPECT_EQ(Payload(Call(channel_, Request())), expected_);
}

TEST_F(DeviceFaultsTest, QuarantinesADeviceWhoseSelfTestIsWrong) {
  options_.self_test_interval = absl::Milliseconds(50);
  Start(2);
  controls_[1]->Next(InjectedFault::kWrong);
  const absl::Time wrong = absl::Now();
  EXPECT_TRUE(Eventually([&] {
    for (int i = 0; i < 4; ++i) {
      if (DeviceOf(Call(channel_, Request())) == "fault:cpu:1") return false;
    }
    return true;
  }));
  std::printf("wrong results found after %.1f ms\n",
              absl::ToDoubleMilliseconds(absl::Now() - wrong));
  EXPECT_EQ(Health(), 1);
  controls_[1]->Heal();
  EXPECT_TRUE(Eventually(
      [&] { return DeviceOf(Call(channel_, Request())) == "fault:cpu:1"; }));
}

TEST_F(DeviceFaultsTest, DoesNotUseADeviceThatIsWrongFromTheStart) {
  controls_.push_back(std::make_shared<FaultControl>());
  controls_[0]->Arrange({{InjectedFault::kWrong, 3}});
  std::vector<std::unique_ptr<Backend>> backends;
  backends.push_back(
      MakeFaultBackend("fault:cpu:0", *OpenBackend("cpu"), controls_[0]));
  auto server = Server::StartWith(options_, std::move(backends));
  ASSERT_THAT(server, IsOk());
  server_ = *std::move(server);
  channel_ = Dial(server_->address());
  EXPECT_EQ(Health(), 2);
  controls_[0]->Heal();
  EXPECT_TRUE(Eventually([&] { return Health() == 1; }));
}

class HangTest : public DeviceFaultsTest,
                 public testing::WithParamInterface<bool> {};

TEST_P(HangTest, EndsTheCallAndServesOthers) {
  const bool small = GetParam();
  options_.max_job = absl::Milliseconds(600);
  Start(2);
  // Both devices hang at their next job, because either may get the call.
  for (const auto& control : controls_) control->Next(InjectedFault::kHang);
  std::thread second([&] { Call(Dial(server_->address()), Request(small)); });
  const absl::Time hung = absl::Now();
  const RpcResult result = Call(channel_, Request(small));
  std::printf("a hanging call ended after %.0f ms\n",
              absl::ToDoubleMilliseconds(absl::Now() - hung));
  second.join();
  EXPECT_EQ(result.status.error_code(), grpc::UNAVAILABLE);
  ASSERT_TRUE(result.detail.has_value());
  EXPECT_EQ(result.detail->reason(), ErrorDetail::REASON_NO_DEVICE);
  EXPECT_LT(absl::Now() - hung, absl::Seconds(20));
  EXPECT_TRUE(Eventually([&] { return Health() == 2; }));
  // A hanging call is not tried on another device.
  EXPECT_EQ(controls_[0]->hanging() + controls_[1]->hanging(), 2);
  for (const auto& control : controls_) control->Heal();
  EXPECT_TRUE(Eventually([&] { return Health() == 1; }));
  EXPECT_EQ(Payload(Call(channel_, Request())), expected_);
}

INSTANTIATE_TEST_SUITE_P(Sizes, HangTest, testing::Bool());

// Streams with a reduced amax compute on a device twice. A fault in the first
// pass is also reported to the client, and everything is released.
TEST_F(DeviceFaultsTest, ReportsFaultsWhileMaximaAreComputed) {
  options_.max_job = absl::Milliseconds(600);
  for (const InjectedFault::Kind fault :
       {InjectedFault::kSticky, InjectedFault::kHang}) {
    Start(1);
    const auto control = controls_.back();
    control->Next(fault);
    RpcOptions stream;
    stream.method = "Stream";
    RpcCall call(channel_, stream);
    v1::QuantizeRequest request = QuantizeOnes(64);
    v1::StreamRequest chunk;
    chunk.set_chunk(std::move(*request.mutable_payload()));
    request.clear_payload();
    v1::StreamRequest start;
    start.set_payload_bytes(chunk.chunk().size());
    *start.mutable_reduce_amax() = std::move(request);
    EXPECT_TRUE(call.Send(start.SerializeAsString()));
    EXPECT_TRUE(call.Send(chunk.SerializeAsString()));
    EXPECT_FALSE(call.Receive().has_value());
    const RpcResult result = call.Finish();
    EXPECT_EQ(result.status.error_code(), grpc::UNAVAILABLE);
    ASSERT_TRUE(result.detail.has_value());
    EXPECT_EQ(result.detail->reason(), ErrorDetail::REASON_NO_DEVICE);
    control->Heal();
    EXPECT_TRUE(Eventually([&] { return Health() == 1; }));
    EXPECT_TRUE(Eventually([&] { return server_->gate().used() == 0; }));
    EXPECT_EQ(Payload(Call(channel_, Request())), expected_);
  }
}

TEST_F(DeviceFaultsTest, CallsBehindAHangMoveToAnotherDevice) {
  options_.max_job = absl::Seconds(2);
  Start(2);
  controls_[0]->Arrange({{InjectedFault::kHang, controls_[0]->jobs() + 1},
                         {InjectedFault::kHang, controls_[0]->jobs() + 2}});
  std::atomic<int> ok = 0;
  std::atomic<int> told = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 12; ++i) {
    clients.emplace_back([&] {
      const RpcResult result = Call(Dial(server_->address()), Request());
      if (result.status.ok()) {
        EXPECT_EQ(Payload(result), expected_);
        ++ok;
      } else if (result.detail &&
                 result.detail->reason() == ErrorDetail::REASON_NO_DEVICE) {
        ++told;
      }
    });
  }
  for (std::thread& client : clients) client.join();
  // Both slots hang; calls that waited for them moved to the other device.
  EXPECT_EQ(told, 2);
  EXPECT_EQ(ok, 10);
  EXPECT_EQ(Health(), 1);
}

TEST_F(DeviceFaultsTest, FallbackDeviceServesWhileOthersAreLost) {
  options_.fallback = true;
  Start(1);
  EXPECT_EQ(DeviceOf(Call(channel_, Request())), "fault:cpu:0");
  Load([&] { controls_[0]->Next(InjectedFault::kSticky); });
  const RpcResult result = Call(channel_, Request());
  EXPECT_EQ(Payload(result), expected_);
  EXPECT_EQ(DeviceOf(result), "cpu:fallback");
  EXPECT_EQ(Health(), 1);
  controls_[0]->Heal();
  EXPECT_TRUE(Eventually(
      [&] { return DeviceOf(Call(channel_, Request())) == "fault:cpu:0"; }));
}

TEST_F(DeviceFaultsTest, RequestThatBreaksDevicesIsNotRetriedForEver) {
  Start(4);
  const std::vector<uint64_t> before = {
      controls_[0]->jobs(), controls_[1]->jobs(), controls_[2]->jobs(),
      controls_[3]->jobs()};
  for (const auto& control : controls_) control->Next(InjectedFault::kOnce);
  const RpcResult result = Call(channel_, Request());
  EXPECT_EQ(result.status.error_code(), grpc::INTERNAL);
  ASSERT_TRUE(result.detail.has_value());
  EXPECT_EQ(result.detail->reason(), ErrorDetail::REASON_DEVICE_FAULT);
  int tried = 0;
  for (int i = 0; i < 4; ++i) tried += controls_[i]->jobs() > before[i];
  EXPECT_EQ(tried, 3);
}

TEST_F(DeviceFaultsTest, AsksForARestartAfterLongWithoutADevice) {
  std::atomic<int> asked = 0;
  options_.most_without = absl::Milliseconds(200);
  options_.on_hopeless = [&] { ++asked; };
  Start(1);
  controls_[0]->Next(InjectedFault::kSticky, absl::Milliseconds(50));
  EXPECT_FALSE(Call(channel_, Request()).status.ok());
  EXPECT_TRUE(Eventually([&] { return Health() == 1; }));
  absl::SleepFor(absl::Milliseconds(300));
  EXPECT_EQ(asked, 0);  // the device recovered in time
  controls_[0]->Next(InjectedFault::kSticky);
  EXPECT_FALSE(Call(channel_, Request()).status.ok());
  EXPECT_TRUE(Eventually([&] { return asked == 1; }));
  EXPECT_TRUE(server_->wants_restart());
  absl::SleepFor(absl::Milliseconds(300));
  EXPECT_EQ(asked, 1);
}

// A call that finds no device gets a short retry delay if a device has just
// recovered. The delay does not depend on the device's next self-test.
TEST(RetryDelayTest, IsShortOnceADeviceWorksAgain) {
  std::vector<std::unique_ptr<Backend>> backends;
  auto cpu = OpenBackend("cpu", {.slots = 1, .threads = 1});
  ASSERT_THAT(cpu, IsOk());
  backends.push_back(*std::move(cpu));
  Engine engine(std::move(backends));
  Gate::Limits limits;
  limits.receiving = limits.heads = 1 << 20;
  limits.devices = {1 << 20};
  const auto gate = Gate::Create(limits);
  HealthService health;
  DeviceMonitor monitor(&engine, gate.get(), &health, {});
  monitor.Start();
  EXPECT_LE(monitor.RetryDelay(), absl::Milliseconds(50));
  EXPECT_TRUE(monitor.Stop(absl::Minutes(1)));
}

}  // namespace
}  // namespace quantd
