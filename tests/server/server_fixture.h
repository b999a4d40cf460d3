// A server in the test process on a free loopback port, by default with a fake
// device.
#ifndef QUANTD_TESTS_SERVER_SERVER_FIXTURE_H_
#define QUANTD_TESTS_SERVER_SERVER_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "server/gate/steady_time.h"
#include "server/server.h"
#include "tests/kernels/device/fake_backend.h"
#include "tests/server/rpc_client.h"
#include "tests/testing/matchers.h"

namespace quantd {

class ServerTest : public testing::Test {
 protected:
  ServerTest() {
    options_.listen = "127.0.0.1:0";
    options_.memory_budget = 64 << 20;
    options_.drain_delay = absl::ZeroDuration();
    // Limits are long, so that a slow machine does not look like a busy server.
    options_.max_wait = absl::Minutes(10);
    options_.max_receive = absl::Minutes(10);
    options_.now = [this] {
      return SteadyNow() + absl::Seconds(passed_.load());
    };
    ConfigureLog(LogLevel::kOff, LogFormat::kText);
  }

  // Advances the server's clock without waiting.
  void Pass(int seconds) { passed_ += seconds; }
  // Advances the clock until everything is released.
  bool PassUntilUnused() {
    return Eventually([&] {
      Pass(1);
      return server_->gate().used() == 0;
    });
  }

  void StartFake(int slots = 2) {
    std::vector<std::unique_ptr<Backend>> backends;
    backends.push_back(std::make_unique<FakeBackend>(&control_, "fake:0", slots,
                                                     options_.memory_budget));
    auto server = Server::StartWith(options_, std::move(backends));
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
    channel_ = Dial(server_->address());
  }
  void StartReal(std::vector<std::string> devices) {
    options_.devices = std::move(devices);
    auto server = Server::Start(options_);
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
    channel_ = Dial(server_->address());
  }
  // After every test all memory must be released, and all calls must have
  // ended.
  void TearDown() override {
    control_.Open();
    if (server_ == nullptr) return;
    EXPECT_TRUE(Eventually([&] { return server_->gate().used() == 0; }))
        << server_->gate().used();
    EXPECT_EQ(server_->gate().waiting(), 0u);
    EXPECT_TRUE(server_->Drain(absl::ZeroDuration()));
  }

  std::atomic<int> passed_ = 0;  // seconds
  FakeControl control_;
  ServerOptions options_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace quantd

#endif  // QUANTD_TESTS_SERVER_SERVER_FIXTURE_H_
