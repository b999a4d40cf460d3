// What an honest connection brings that nobody has asked for yet: a window of
// each of its streams. It must not be taken for a flood.
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

RpcOptions WithLength(const std::string& request) {
  RpcOptions options;
  options.declared = std::to_string(request.size());
  return options;
}

class WindowsTest : public ServerTest {};

TEST_F(WindowsTest, CallsThatWaitBringOneEach) {
  options_.memory_budget = 28 << 20;
  StartFake();
  control_.Close();
  // 8 MiB: one fits, two do not.
  const std::string request = QuantizeOnes(4096).SerializeAsString();
  constexpr int kCalls = 24;
  std::atomic<int> served = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kCalls; ++i) {
    threads.emplace_back([&] {
      RpcResult result;
      // A slow machine asks some to come again.
      for (int attempt = 0; attempt < 100; ++attempt) {
        result = Call(channel_, request, WithLength(request));
        if (result.pushback.empty()) break;
        absl::SleepFor(absl::Milliseconds(100));
      }
      EXPECT_TRUE(result.status.ok()) << result.status.error_message();
      if (result.status.ok()) ++served;
    });
  }
  EXPECT_TRUE(control_.AwaitRunning(1));
  EXPECT_TRUE(Eventually([&] { return server_->gate().waiting() > 20; }))
      << server_->gate().waiting();
  absl::SleepFor(absl::Seconds(1));
  control_.Open();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served, kCalls);
}

// Threads that take the machine from the server.
class Burners {
 public:
  Burners() {
    const unsigned n = 4 * std::max(std::thread::hardware_concurrency(), 1u);
    for (unsigned i = 0; i < n; ++i) {
      threads_.emplace_back([this] {
        while (!over_) {
        }
      });
    }
  }
  ~Burners() {
    over_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> over_ = false;
  std::vector<std::thread> threads_;
};

// So many at once: each is left after a moment, or else served.
void CallAtOnce(const std::shared_ptr<grpc::Channel>& channel,
                const std::string& request, int calls,
                absl::Duration left_after) {
  std::vector<std::thread> threads;
  for (int i = 0; i < calls; ++i) {
    threads.emplace_back([&] {
      RpcOptions options = WithLength(request);
      const bool stays = left_after == absl::InfiniteDuration();
      if (!stays) options.deadline = left_after;
      // A machine this slow may ask who came too late to come again.
      const auto is_answer = [&](const RpcResult& result) {
        return result.status.ok() || !result.pushback.empty() ||
               (!stays &&
                result.status.error_code() == grpc::DEADLINE_EXCEEDED);
      };
      const RpcResult result = Call(channel, request, options);
      EXPECT_TRUE(is_answer(result)) << result.status.error_message();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

class BusyWindowsTest : public WindowsTest {
 protected:
  // Connections one after the other, on a machine that has no time: each has
  // twelve calls at once, after as many that were left if `after_left`.
  void CallOnConnections(bool after_left) {
    options_.memory_budget = 512 << 20;
    StartFake();
    const std::string request = QuantizeOnes(500).SerializeAsString();
    const Burners burners;
    for (int round = 0; round < 10 && !HasFailure(); ++round) {
      const auto channel = Dial(server_->address());
      if (after_left) {
        CallAtOnce(channel, request, 12, absl::Milliseconds(1 + round % 15));
      }
      CallAtOnce(channel, request, 12, absl::InfiniteDuration());
    }
  }
};

TEST_F(BusyWindowsTest, CallsAtOnce) { CallOnConnections(false); }
TEST_F(BusyWindowsTest, CallsAfterOthersThatWereLeft) {
  CallOnConnections(true);
}

}  // namespace
}  // namespace quantd
