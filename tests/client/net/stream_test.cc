// Compares calls in chunks with calls by one message, for all options and
// several chunk sizes. Every byte must be equal.
#include <chrono>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "quantd/client.h"
#include "tests/bench/rpc_process.h"
#include "tests/client/two_ways.h"
#include "tests/kernels/device/plan_rows.h"
#include "tests/testing/matchers.h"
#include "tests/testing/tensors.h"

namespace quantd {
namespace {

using Bytes = absl::Span<const std::byte>;

// Returns the machine's free memory in bytes.
size_t FreeMemory() {
  std::ifstream file("/proc/meminfo");
  std::string word;
  while (file >> word) {
    size_t kibibytes = 0;
    if (word == "MemAvailable:" && file >> kibibytes) return kibibytes << 10;
  }
  return 0;
}

class StreamedCalls : public testing::Test {
 protected:
  void Start(const std::vector<std::string>& flags = {}) {
    std::vector<std::string> line = {bench::FindQuantd(), "--listen",
                                     "127.0.0.1:0", "--device", "cpu:0"};
    line.insert(line.end(), flags.begin(), flags.end());
    process_ = std::make_unique<bench::ServerProcess>(line);
    ASSERT_TRUE(process_->running()) << process_->Log();
    ClientOptions options;
    plain_ = Open(options);
    options.stream_from = 0;
    streaming_ = Open(options);
  }
  std::unique_ptr<Client> Open(const ClientOptions& options) {
    auto client = Client::Create(process_->address(), options);
    EXPECT_THAT(client, IsOk());
    return client.ok() ? *std::move(client) : nullptr;
  }

  void ExpectSame(const Plan& plan) {
    // Skips shapes too large to compute.
    if (plan.input_bytes() + plan.output_bytes() > (size_t{16} << 20)) return;
    std::vector<oracle::Bytes> inputs;
    std::vector<Bytes> in;
    for (const TensorSpec& input : plan.inputs()) {
      inputs.push_back(RandomBytes(static_cast<int64_t>(input.size), calls_));
    }
    for (const oracle::Bytes& bytes : inputs) {
      in.push_back(
          {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
    }
    const auto expected = Ask(*plain_, plan, in);
    // Every other call writes into the caller's memory.
    CallOptions call;
    std::vector<std::vector<double>> places;
    for (const TensorSpec& spec : plan.outputs()) {
      if (calls_ % 2 == 0) break;
      places.emplace_back(spec.size / sizeof(double) + 1);
      call.into.push_back(
          {spec.kind,
           {reinterpret_cast<std::byte*>(places.back().data()), spec.size}});
    }
    ++calls_;
    const auto got = Ask(*streaming_, plan, in, call);
    ASSERT_EQ(got.status().code(), expected.status().code()) << got.status();
    if (!expected.ok()) return;
    EXPECT_FALSE(expected->streamed());
    EXPECT_TRUE(got->streamed());
    EXPECT_EQ(got->transport(), Transport::kTcp);
    EXPECT_NE(got->request_id(), "");
    ExpectSameParts(*expected, *got);
    ExpectSameStatistics(*expected, *got);
  }

  std::unique_ptr<bench::ServerProcess> process_;
  std::unique_ptr<Client> plain_;
  std::unique_ptr<Client> streaming_;
  size_t calls_ = 0;
};

TEST_F(StreamedCalls, QuantizeGivesTheBytesOfOneMessage) {
  Start();
  ForQuantizeRows(1, [&](const QuantizeRow& row) {
    SCOPED_TRACE(row.format.name);
    SCOPED_TRACE(row.settings);
    if (!HasFatalFailure()) ExpectSame(row.plan);
  });
  EXPECT_GT(calls_, 500u);
}

TEST_F(StreamedCalls, OtherMethodsGiveTheBytesOfOneMessage) {
  Start();
  const auto each = [&](const PlanRow& row) {
    SCOPED_TRACE(row.format);
    SCOPED_TRACE(row.settings);
    if (!HasFatalFailure()) ExpectSame(row.plan);
  };
  ForDequantizeRows(each);
  ForRhtAmaxRows(each);
  ForApplyRhtRows(each);
  EXPECT_GT(calls_, 100u);
}

TEST_F(StreamedCalls, TensorsLargerThanAChunk) {
  Start();
  // The last chunk is shorter, and no part ends where a chunk ends.
  const TensorDesc desc = {DType::kF32, {1041, 1056}};
  QuantizeOptions options;
  options.usage = Usage::kBoth;
  options.statistics = options.dbias = options.want_amax = true;
  for (const Format format :
       {Format::kNvfp4, Format::kMxfp8E4M3, Format::kFp8BlockE4M3}) {
    options.format = format;
    const auto plan = MakeQuantizePlan(desc, options);
    ASSERT_THAT(plan, IsOk());
    ExpectSame(*plan);
  }
  ApplyRhtOptions rotation;
  const auto plan = MakeApplyRhtPlan(desc, rotation);
  ASSERT_THAT(plan, IsOk());
  ExpectSame(*plan);
}

TEST_F(StreamedCalls, LargeCallsStreamAutomatically) {
  Start({"--max-request-bytes", "64KiB", "--memory-budget", "64MiB"});
  const TensorDesc desc = {DType::kBF16, {64, 1024}};
  const std::vector<std::byte> zeros(128 << 10);
  QuantizeOptions options;
  options.format = Format::kNvfp4;
  for (int i = 0; i < 2; ++i) {
    const auto large = plain_->Quantize(desc, zeros, options);
    ASSERT_THAT(large, IsOk());
    EXPECT_TRUE(large->streamed());
    EXPECT_EQ(large->attempts(), 1);
  }
  const TensorDesc small = {DType::kBF16, {16, 1024}};
  const auto one =
      plain_->Quantize(small, Bytes(zeros).first(32 << 10), options);
  ASSERT_THAT(one, IsOk());
  EXPECT_FALSE(one->streamed());
  // A request beyond the server's memory is refused before it is sent.
  const TensorDesc huge = {DType::kBF16, {32 << 10, 1024}};
  const std::vector<std::byte> much(64 << 20);
  const auto refused = plain_->Quantize(huge, much, options);
  ASSERT_THAT(refused, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(GetServerError(refused.status())->reason, ErrorReason::kTooLarge);
}

// The tensor is larger than one message of gRPC can be, which is 2 GiB.
TEST_F(StreamedCalls, TensorsLargerThanTwoGibibytes) {
  constexpr int64_t kRows = 1152 << 10;
  constexpr size_t kBytes = size_t{kRows} * 2048;  // 2.25 GiB
  if (FreeMemory() < 5 * kBytes) {
    GTEST_SKIP() << "needs 12 GiB of memory";
  }
  Start({"--memory-budget", "5GiB", "--max-request-bytes", "1280MiB"});
  std::vector<uint16_t> values(kBytes / 2);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<uint16_t>(0x3e00 + i * 2654435761u % 0x180);
  }
  const Bytes input(reinterpret_cast<const std::byte*>(values.data()), kBytes);
  QuantizeOptions options;
  options.format = Format::kNvfp4;
  options.rowwise_amax = {4.0f};
  CallOptions call;
  call.deadline = std::chrono::minutes(5);
  const TensorDesc desc = {DType::kBF16, {kRows, 1024}};
  const auto whole = plain_->Quantize(desc, input, options, call);
  ASSERT_THAT(whole, IsOk());
  EXPECT_TRUE(whole->streamed());
  const TensorDesc half = {DType::kBF16, {kRows / 2, 1024}};
  for (const bool second : {false, true}) {
    const auto part = plain_->Quantize(
        half, input.subspan(second ? kBytes / 2 : 0, kBytes / 2), options,
        call);
    ASSERT_THAT(part, IsOk());
    EXPECT_FALSE(part->streamed());
    for (const TensorKind kind :
         {TensorKind::kRowwiseData, TensorKind::kRowwiseScale}) {
      const Bytes mine = part->bytes(kind);
      EXPECT_TRUE(BytesEq(
          Name(kind), mine,
          whole->bytes(kind).subspan(second ? mine.size() : 0, mine.size())));
    }
  }
}

TEST_F(StreamedCalls, ErrorsEqualThoseOfOneMessage) {
  Start();
  const TensorDesc desc = {DType::kF32, {64, 1024}};
  std::vector<float> values(64 * 1024, 1.0f);
  values[77] = std::numeric_limits<float>::quiet_NaN();
  const Bytes bytes(reinterpret_cast<const std::byte*>(values.data()),
                    values.size() * sizeof(float));
  QuantizeOptions options;
  options.format = Format::kNvfp4;
  options.non_finite = NonFinite::kReject;
  const auto expected = plain_->Quantize(desc, bytes, options);
  const auto got = streaming_->Quantize(desc, bytes, options);
  ASSERT_THAT(got, StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(GetFieldViolation(got.status())->field,
            GetFieldViolation(expected.status())->field);
  EXPECT_NE(GetRequestId(got.status()), "");
}

TEST_F(StreamedCalls, CanBeCancelledAtAnyPoint) {
  Start();
  const TensorDesc desc = {DType::kBF16, {16 << 10, 1024}};
  const std::vector<std::byte> zeros(32 << 20);
  QuantizeOptions options;
  options.format = Format::kNvfp4;
  bool stopped = false;
  for (int i = 0; i < 16; ++i) {
    CallOptions call;
    call.cancel.emplace();
    auto future = streaming_->QuantizeAsync(desc, zeros, options, call);
    std::this_thread::sleep_for(std::chrono::milliseconds(i * 2));
    call.cancel->Cancel();
    const auto result = future.get();
    stopped |= !result.ok();
    if (result.ok()) continue;
    EXPECT_THAT(result, StatusIs(absl::StatusCode::kCancelled));
  }
  EXPECT_TRUE(stopped);
  CallOptions call;
  call.deadline = std::chrono::milliseconds(3);
  EXPECT_THAT(streaming_->Quantize(desc, zeros, options, call),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(streaming_->Quantize(desc, zeros, options), IsOk());
}

}  // namespace
}  // namespace quantd
