// Tests of an overloaded server: refused calls are repeated after the pushback
// that it states, and succeed.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "quantd/client.h"
#include "quantd/error.h"
#include "tests/bench/rpc_process.h"
#include "tests/testing/matchers.h"

namespace quantd {
namespace {

using std::chrono::milliseconds;

class BusyServerTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(server_.running()) << server_.Log();
    options_.format = Format::kNvfp4;
    options_.usage = Usage::kBoth;
    ClientOptions options;
    options.channels = 4;
    auto client = Client::Create(server_.address(), options);
    ASSERT_THAT(client, IsOk());
    client_ = *std::move(client);
  }
  absl::StatusOr<Result> Call(milliseconds deadline) {
    CallOptions call;
    call.deadline = deadline;
    return client_->Quantize(tensor_, input_, options_, call);
  }
  // Runs `callers` threads at once, each until `call` returns false.
  template <typename Call>
  static void AtOnce(int callers, Call call) {
    std::vector<std::thread> threads;
    for (int i = 0; i < callers; ++i) {
      threads.emplace_back([&] {
        while (call()) {
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  const bench::ServerProcess server_{{bench::FindQuantd(), "--listen",
                                      "127.0.0.1:0", "--device", "cpu",
                                      "--cpu-threads", "1", "--slots", "1"}};
  const TensorDesc tensor_{DType::kBF16, {2048, 1024}};
  const std::vector<std::byte> input_ =
      std::vector<std::byte>(size_t{4} << 20, std::byte{0x3f});
  QuantizeOptions options_;
  std::unique_ptr<Client> client_;
};

TEST_F(BusyServerTest, ServesCallsThatCanWait) {
  const auto first = Call(std::chrono::minutes(1));
  ASSERT_THAT(first, IsOk());
  std::atomic<int> left = 160;
  std::atomic<int> served = 0;
  AtOnce(16, [&] {
    if (--left < 0) return false;
    // Every other call has a short deadline. The server may refuse it at once,
    // if it would miss the deadline.
    if (left % 2 == 0) {
      const auto hasty = Call(milliseconds(40));
      served += hasty.ok() || absl::IsResourceExhausted(hasty.status()) ||
                absl::IsDeadlineExceeded(hasty.status());
      return true;
    }
    const auto result = Call(std::chrono::minutes(2));
    EXPECT_THAT(result, IsOk());
    if (result.ok() &&
        std::ranges::equal(result->bytes(TensorKind::kRowwiseData),
                           first->bytes(TensorKind::kRowwiseData))) {
      ++served;
    }
    return true;
  });
  EXPECT_EQ(served, 160);
}

}  // namespace
}  // namespace quantd
