// Tests of admission, slots, deadlines and cancellation in one process, on fake
// devices whose jobs wait until the test releases them, and of the addresses
// that CreateClient accepts.
#include "client/local/local_devices.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "kernels/device/budget.h"
#include "quantd/error.h"
#include "quantd/local.h"
#include "quantd/pieces.h"
#include "tests/kernels/device/fake_backend.h"
#include "tests/testing/matchers.h"
#include "tests/testing/no_threads.h"

namespace quantd {
namespace {

using client::CallControl;
using client::CallLimit;
using std::chrono::milliseconds;
using testing::HasSubstr;

// A call on a thread of its own.
class Caller {
 public:
  Caller(client::LocalDevices& devices, const Plan& plan,
         absl::Span<const std::byte> input,
         milliseconds limit = std::chrono::minutes(1))
      : thread_([=, this, &devices, &plan] {
          const CallLimit call{limit, std::chrono::system_clock::now() + limit};
          status = devices
                       .Run({plan, {&input, 1}, {}, {}, call, control},
                            client::Way::kHere, {})
                       .status();
          done = true;
        }) {}
  ~Caller() {
    if (thread_.joinable()) thread_.join();
  }
  const absl::Status& Join() {
    thread_.join();
    return status;
  }
  CallControl control;
  std::atomic<bool> done = false;

 private:
  absl::Status status;
  std::thread thread_;
};

class LocalDevicesTest : public testing::Test {
 protected:
  LocalDevicesTest() : input_(128 * 1024 * 2) {
    QuantizeOptions options;
    options.format = Format::kNvfp4;
    plan_.emplace(*MakeQuantizePlan({DType::kBF16, {128, 1024}, -1}, options));
  }
  // Opens devices, each with `slots` slots and memory for `calls` calls.
  void Open(int devices, int slots, size_t calls) {
    std::vector<std::unique_ptr<Backend>> backends;
    const size_t room = PayloadNeed(*plan_) * calls;
    for (int i = 0; i < devices; ++i) {
      backends.push_back(std::make_unique<FakeBackend>(
          &control_, "fake:" + std::to_string(i), slots, room));
    }
    devices_.emplace("local", std::move(backends), room * devices);
  }
  std::unique_ptr<Caller> Call(milliseconds limit = std::chrono::minutes(1)) {
    return std::make_unique<Caller>(*devices_, *plan_, input_, limit);
  }
  static void Pause() { std::this_thread::sleep_for(milliseconds(60)); }

  FakeControl control_;
  std::vector<std::byte> input_;
  std::optional<Plan> plan_;
  std::optional<client::LocalDevices> devices_;
};

TEST_F(LocalDevicesTest, SlotsLimitConcurrentCalls) {
  Open(1, 2, 100);
  control_.Close();
  std::vector<std::unique_ptr<Caller>> callers;
  for (int i = 0; i < 8; ++i) callers.push_back(Call());
  ASSERT_TRUE(control_.AwaitRunning(2));
  Pause();
  EXPECT_EQ(control_.begun(), 2);
  control_.Open();
  for (auto& caller : callers) EXPECT_THAT(caller->Join(), IsOk());
  EXPECT_EQ(control_.begun(), 8);
}

TEST_F(LocalDevicesTest, SpreadsCallsOverTheDevices) {
  Open(3, 4, 1);
  control_.Close();
  std::vector<std::unique_ptr<Caller>> callers;
  for (int i = 0; i < 3; ++i) callers.push_back(Call());
  EXPECT_TRUE(control_.AwaitRunning(3));
  control_.Open();
  for (auto& caller : callers) EXPECT_THAT(caller->Join(), IsOk());
}

TEST_F(LocalDevicesTest, GrantsMemoryInOrder) {
  Open(1, 4, 2);
  control_.Close();
  std::vector<std::unique_ptr<Caller>> callers;
  for (int i = 0; i < 2; ++i) callers.push_back(Call());
  ASSERT_TRUE(control_.AwaitRunning(2));
  // The first waiting call reaches its deadline, the second is cancelled, and
  // the last still gets memory.
  const auto late = Call(milliseconds(50));
  const auto cancelled = Call();
  Pause();
  const auto last = Call();
  EXPECT_THAT(late->Join(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  cancelled->control.Cancel();
  EXPECT_THAT(cancelled->Join(), StatusIs(absl::StatusCode::kCancelled));
  Pause();
  EXPECT_EQ(control_.begun(), 2);
  EXPECT_FALSE(last->done);
  control_.Open();
  EXPECT_THAT(last->Join(), IsOk());
  for (auto& caller : callers) EXPECT_THAT(caller->Join(), IsOk());
}

TEST_F(LocalDevicesTest, CancelsACallThatWaitsForASlot) {
  Open(1, 1, 100);
  control_.Close();
  const auto running = Call();
  ASSERT_TRUE(control_.AwaitRunning(1));
  const auto late = Call(milliseconds(50));
  const auto cancelled = Call();
  EXPECT_THAT(late->Join(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  cancelled->control.Cancel();
  EXPECT_THAT(cancelled->Join(), StatusIs(absl::StatusCode::kCancelled));
  control_.Open();
  EXPECT_THAT(running->Join(), IsOk());
  EXPECT_EQ(control_.begun(), 1);
}

// A cancelled call returns only when the device no longer uses its input.
TEST_F(LocalDevicesTest, CancelledCallReturnsAfterItsJobEnds) {
  Open(1, 1, 100);
  control_.Close();
  const auto running = Call();
  ASSERT_TRUE(control_.AwaitRunning(1));
  running->control.Cancel();
  Pause();
  EXPECT_FALSE(running->done);
  control_.Open();
  EXPECT_THAT(running->Join(), StatusIs(absl::StatusCode::kCancelled));
  const auto next = Call();
  EXPECT_THAT(next->Join(), IsOk());
}

TEST_F(LocalDevicesTest, RefusesAPlanBeyondTheBudget) {
  Open(1, 1, 1);
  const auto large =
      MakeQuantizePlan({DType::kBF16, {1024, 1024}, -1},
                       std::get<QuantizeOptions>(plan_->options()));
  ASSERT_THAT(large, IsOk());
  const std::vector<std::byte> input(large->input_bytes());
  Caller caller(*devices_, *large, input);
  const absl::Status status = caller.Join();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(GetFieldViolation(status)->field,
            "memory for input, output and scratch");
  ASSERT_TRUE(GetServerError(status));
  EXPECT_EQ(GetServerError(status)->reason, ErrorReason::kTooLarge);
  EXPECT_EQ(GetServerError(status)->limit, PayloadNeed(*plan_));
  EXPECT_EQ(control_.begun(), 0);
}

TEST_F(LocalDevicesTest, ErrorNamesTheDevice) {
  Open(1, 1, 1);
  control_.Fail(absl::InternalError("fell off the bus"));
  const auto call = Call();
  const absl::Status status = call->Join();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("device fake:0 failed: fell off the bus"));
  ASSERT_TRUE(GetServerError(status));
  EXPECT_EQ(GetServerError(status)->reason, ErrorReason::kDeviceFault);
}

TEST(LocalClient, AcceptsLocalAddresses) {
  for (const char* target : {"local", "local:cpu", "local:cpu:0"}) {
    const auto client = CreateClient(target);
    ASSERT_THAT(client, IsOk()) << target;
    EXPECT_EQ((*client)->target(), target);
  }
  for (const char* target :
       {"local:", "local:tpu", "local:memcpy", "local:cpu:", "local:cpux",
        "local:cpu:0,local:cpu:1", "local,127.0.0.1:1"}) {
    EXPECT_EQ(FieldOf(CreateClient(target).status()), "target") << target;
  }
  // "local:50151" is a host named local with a port; the other address names a
  // missing device.
  EXPECT_THAT(CreateClient("local:50151"), IsOk());
  EXPECT_THAT(CreateClient("local:cuda:99"),
              StatusIs(absl::StatusCode::kNotFound));
  ClientOptions options;
  options.local.memory_budget = 1 << 20;
  EXPECT_EQ(FieldOf(CreateClient("local", options).status()),
            "local.memory_budget");
  options = {};
  options.local.slots = -1;
  EXPECT_EQ(FieldOf(CreateClient("local", options).status()), "local.slots");
}

TEST(LocalClient, ManyThreadsShareASmallBudget) {
  ClientOptions options;
  options.local = {.memory_budget = kLeastBudget, .slots = 2, .threads = 2};
  const auto client = CreateClient("local:cpu", options);
  ASSERT_THAT(client, IsOk());
  const TensorDesc tensor{DType::kBF16, {2048, 1024}, -1};
  const std::vector<std::byte> input(2048 * 1024 * 2, std::byte{0x3f});
  QuantizeOptions quantize;
  quantize.format = Format::kNvfp4;
  const auto first = (*client)->Quantize(tensor, input, quantize);
  ASSERT_THAT(first, IsOk());
  std::atomic<int> same = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        const auto result = (*client)->Quantize(tensor, input, quantize);
        same += result.ok() && result->bytes(TensorKind::kRowwiseData) ==
                                   first->bytes(TensorKind::kRowwiseData);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(same, 16 * 5);
  const auto info = (*client)->GetServerInfo();
  ASSERT_THAT(info, IsOk());
  EXPECT_EQ(info->memory_budget_bytes, kLeastBudget);
  EXPECT_LE(info->devices[0].memory_high_water_bytes, kLeastBudget);
  EXPECT_LT(info->max_request_bytes, kLeastBudget);
}

TEST(LocalClient, CpuUsesTheCallersMemory) {
  const auto client = CreateClient("local:cpu");
  ASSERT_THAT(client, IsOk());
  const TensorDesc tensor{DType::kF32, {256, 1024}, -1};
  std::vector<float> values(256 * 1024 + 1);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(static_cast<int>(i * 2654435761 >> 7) % 997);
  }
  const auto input = absl::MakeConstSpan(
      reinterpret_cast<const std::byte*>(values.data()), 256 * 1024 * 4);
  const auto high_water = [&] {
    return (*client)->GetServerInfo()->devices[0].memory_high_water_bytes;
  };
  const auto turned = (*client)->ApplyRht(tensor, input, {});
  ASSERT_THAT(turned, IsOk());
  QuantizeOptions quantize;
  quantize.format = Format::kNvfp4;
  const auto codes = (*client)->Quantize(tensor, input, quantize);
  ASSERT_THAT(codes, IsOk());
  EXPECT_EQ(high_water(), 0u);

  // An input that is not aligned for its elements is copied first.
  std::vector<std::byte> odd(input.size() + 1);
  std::copy(input.begin(), input.end(), odd.begin() + 1);
  const auto same = (*client)->Quantize(
      tensor, absl::MakeConstSpan(odd).subspan(1), quantize);
  ASSERT_THAT(same, IsOk());
  EXPECT_TRUE(BytesEq("codes", codes->bytes(TensorKind::kRowwiseData),
                      same->bytes(TensorKind::kRowwiseData)));
  EXPECT_GT(high_water(), 0u);

  // An input that the result overwrites, in full or in part, is also copied.
  for (const size_t shift : {0, 1}) {
    std::vector<float> mine = values;
    auto* const bytes = reinterpret_cast<std::byte*>(mine.data());
    CallOptions call;
    call.into = {{TensorKind::kRotated,
                  absl::MakeSpan(bytes + shift * 4, input.size())}};
    ASSERT_THAT((*client)->ApplyRht(tensor, {bytes, input.size()}, {}, call),
                IsOk());
    EXPECT_TRUE(BytesEq("rotated", turned->bytes(TensorKind::kRotated),
                        call.into[0].bytes));
  }
}

// No message limits what this process computes.
TEST(LocalClient, DescribesLargeResults) {
  const auto client = CreateClient("local:cpu");
  ASSERT_THAT(client, IsOk());
  QuantizeOptions quantize;
  quantize.format = Format::kMxfp8E4M3;
  const auto described = (*client)->DescribeQuantize(
      {DType::kBF16, {1 << 17, 1 << 16}, -1}, quantize);
  ASSERT_THAT(described, IsOk());
  EXPECT_GT(described->output_bytes, size_t{1} << 33);
}

TEST(LocalClient, WorksWithoutMoreThreads) {
  const auto client = CreateClient("local:cpu");
  ASSERT_THAT(client, IsOk());
  const TensorDesc tensor{DType::kBF16, {2048, 1024}, -1};
  const std::vector<std::byte> input(2048 * 1024 * 2, std::byte{0x3f});
  QuantizeOptions quantize;
  quantize.format = Format::kNvfp4;
  const auto whole = (*client)->Quantize(tensor, input, quantize);
  ASSERT_THAT(whole, IsOk());
  const NoThreads none;
  const auto async = (*client)->QuantizeAsync(tensor, input, quantize).get();
  const auto joined = QuantizeInPieces(
      **client, tensor,
      [&](size_t offset, absl::Span<std::byte> bytes) {
        std::copy_n(input.begin() + offset, bytes.size(), bytes.begin());
        return absl::OkStatus();
      },
      quantize, {.request_bytes = 1 << 20, .piece_bytes = 1 << 20});
  for (const auto* result : {&async, &joined}) {
    ASSERT_THAT(*result, IsOk());
    EXPECT_TRUE(BytesEq("codes", whole->bytes(TensorKind::kRowwiseData),
                        (*result)->bytes(TensorKind::kRowwiseData)));
  }
}

TEST(LocalClient, DestructionEndsCallsInFlight) {
  auto client = CreateClient("local:cpu");
  ASSERT_THAT(client, IsOk());
  const TensorDesc tensor{DType::kBF16, {1024, 1024}, -1};
  const std::vector<std::byte> input(1024 * 1024 * 2);
  QuantizeOptions quantize;
  quantize.format = Format::kNvfp4;
  std::vector<std::future<absl::StatusOr<Result>>> futures;
  for (int i = 0; i < 4; ++i) {
    futures.push_back((*client)->QuantizeAsync(tensor, input, quantize));
  }
  client->reset();
  for (auto& future : futures) {
    const auto result = future.get();
    EXPECT_TRUE(result.ok() || absl::IsCancelled(result.status()))
        << result.status();
  }
}

}  // namespace
}  // namespace quantd
