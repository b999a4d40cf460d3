// Tests of the SDK when calls fail, hang or are cancelled.
#include <future>
#include <thread>

#include "tests/client/calls.h"

namespace quantd {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

TEST(Retry, WaitsForThePushbackThenSucceeds) {
  FakeServer server;
  const auto client = Connect(server.target());
  Input in({1, 16});
  server.Script({Busy(120), Busy(0, "150")});
  ASSERT_THAT(client->Quantize(in.desc, in.data, Nvfp4()), IsOk());
  const auto times = server.times();
  ASSERT_EQ(times.size(), 3u);
  EXPECT_GE(times[1] - times[0], milliseconds(120));
  EXPECT_GE(times[2] - times[1], milliseconds(150));
}

TEST(Retry, ReturnsBusyIfThePushbackExceedsTheDeadline) {
  FakeServer server;
  const auto client = Connect(server.target());
  Input in({1, 16});
  server.Script({Busy(60'000)});
  const auto start = steady_clock::now();
  const auto result = client->Quantize(in.desc, in.data, Nvfp4(),
                                       {.deadline = milliseconds(30'000)});
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_LT(Seconds(start), kAtOnce);
  ASSERT_TRUE(GetRetryHint(result.status()).has_value());
  EXPECT_EQ(GetRetryHint(result.status())->delay, milliseconds(60'000));
  EXPECT_EQ(GetServerError(result.status())->reason, ErrorReason::kBusy);
}

TEST(Retry, NegativePushbackPreventsRetry) {
  FakeServer server;
  const auto client = Connect(server.target());
  Input in({1, 16});
  server.Script({Busy(10, "-1")});
  const auto result = client->Quantize(in.desc, in.data, Nvfp4());
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_FALSE(GetRetryHint(result.status()).has_value());
  EXPECT_EQ(server.calls(), 1);
}

TEST(Retry, DoesNotRetryOtherCodes) {
  FakeServer server;
  const auto client = Connect(server.target());
  Input in({1, 16});
  for (const auto code :
       {grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::INTERNAL,
        grpc::StatusCode::UNIMPLEMENTED, grpc::StatusCode::DEADLINE_EXCEEDED,
        grpc::StatusCode::UNKNOWN}) {
    const int before = server.calls();
    server.Script({Failure(code)});
    const auto result = client->Quantize(in.desc, in.data, Nvfp4());
    EXPECT_EQ(static_cast<int>(result.status().code()), static_cast<int>(code));
    EXPECT_EQ(server.calls(), before + 1);
    EXPECT_FALSE(GetRetryHint(result.status()).has_value());
  }
}

TEST(Retry, RetriesACancellationByAProxy) {
  FakeServer server;
  const auto client = Connect(server.target());
  Input in({1, 16});
  server.Script({Failure(grpc::StatusCode::CANCELLED)});
  const auto result = client->Quantize(in.desc, in.data, Nvfp4());
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->attempts(), 2);
  server.Script({Failure(grpc::StatusCode::UNKNOWN, "Stream removed")});
  EXPECT_THAT(client->Quantize(in.desc, in.data, Nvfp4()), IsOk());
  // A CANCELLED with the service's own detail is final.
  Scripted own = Failure(grpc::StatusCode::CANCELLED);
  own.detail.emplace();
  own.detail->set_reason(v1::ErrorDetail::REASON_CANCELLED);
  server.Script({own});
  EXPECT_THAT(client->Quantize(in.desc, in.data, Nvfp4()),
              StatusIs(absl::StatusCode::kCancelled));
}

TEST(Retry, UsesTheStatusSentBeforeAReset) {
  FakeServer server;
  const auto client = Connect(server.target());
  Input in({1, 16});
  // HAProxy resets the stream after an early answer while the client is still
  // sending.
  Scripted reset = Busy(1, "2");
  reset.code = grpc::StatusCode::CANCELLED;
  reset.detail_code = grpc::StatusCode::RESOURCE_EXHAUSTED;
  reset.request_id = "id";
  server.Script({reset, reset, reset, reset, reset, reset});
  const auto result = client->Quantize(in.desc, in.data, Nvfp4());
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->attempts(), 7);
  reset.detail_code = grpc::StatusCode::OK;
  server.Script({reset});
  EXPECT_THAT(client->Quantize(in.desc, in.data, Nvfp4()),
              StatusIs(absl::StatusCode::kUnknown));
}

TEST(Retry, CanBeDisabled) {
  FakeServer server;
  const auto client = Connect(server.target(), {.retry = {.max_attempts = 1}});
  Input in({1, 16});
  server.Script({Failure(grpc::StatusCode::UNAVAILABLE), Busy(1)});
  EXPECT_THAT(client->Quantize(in.desc, in.data, Nvfp4()),
              StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(client->Quantize(in.desc, in.data, Nvfp4()),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_EQ(server.calls(), 2);
}

TEST(Errors, ContainTheServersMessage) {
  FakeServer server;
  const auto client = Connect(server.target());
  Input in({1, 16});
  Scripted s = Failure(grpc::StatusCode::INVALID_ARGUMENT,
                       "payload: expected less, got more");
  s.detail.emplace();
  s.detail->set_reason(v1::ErrorDetail::REASON_TOO_LARGE);
  s.detail->set_field("payload");
  s.detail->set_expected("less");
  s.detail->set_got("more");
  s.detail->set_limit(4096);
  s.request_id = "r-17";
  server.Script({s});
  const absl::Status status =
      client->Quantize(in.desc, in.data, Nvfp4()).status();
  const auto violation = GetFieldViolation(status);
  ASSERT_TRUE(violation.has_value());
  EXPECT_EQ(violation->field, "payload");
  EXPECT_EQ(violation->expected, "less");
  EXPECT_EQ(violation->got, "more");
  const auto error = GetServerError(status);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->reason, ErrorReason::kTooLarge);
  EXPECT_EQ(error->limit, 4096u);
  EXPECT_EQ(GetRequestId(status), "r-17");
  EXPECT_THAT(std::string(status.message()), HasSubstr("r-17"));
}

TEST(Errors, NameAServerThatDoesNotListen) {
  const auto client = Connect("127.0.0.1:1");
  Input in({1, 16});
  const auto start = steady_clock::now();
  const auto result = client->Quantize(in.desc, in.data, Nvfp4());
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(std::string(result.status().message()),
              HasSubstr("cannot reach a quantd server at 127.0.0.1:1"));
  EXPECT_LT(Seconds(start), kAtOnce);
  EXPECT_EQ(GetRequestId(result.status()), "");
}

TEST(Deadline, EndsAHangingCall) {
  FakeServer server;
  const auto client = Connect(server.target());
  Input in({512, 1024});
  Scripted hang;
  hang.hang = true;
  server.Script({hang});
  const auto start = steady_clock::now();
  const auto result = client->Quantize(in.desc, in.data, Nvfp4(),
                                       {.deadline = milliseconds(200)});
  EXPECT_THAT(result, StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("200 ms"));
  EXPECT_GE(Seconds(start), 0.19);
  EXPECT_LT(Seconds(start), kAtOnce);
}

TEST(Cancel, TokenEndsACallAndABackoff) {
  FakeServer server;
  const auto client = Connect(server.target());
  Input in({512, 1024});
  Scripted hang;
  hang.hang = true;
  for (const Scripted& script : {hang, Busy(20'000)}) {
    server.Script({script});
    const int before = server.calls();
    const CancellationToken token;
    const auto start = steady_clock::now();
    auto future =
        client->QuantizeAsync(in.desc, in.data, Nvfp4(), {.cancel = token});
    while (server.calls() == before) std::this_thread::yield();
    std::this_thread::sleep_for(milliseconds(50));
    token.Cancel();
    EXPECT_THAT(future.get(), StatusIs(absl::StatusCode::kCancelled));
    EXPECT_LT(Seconds(start), kAtOnce);
    EXPECT_TRUE(token.cancelled());
    // With a cancelled token a call is not sent.
    EXPECT_THAT(client->Quantize(in.desc, in.data, Nvfp4(), {.cancel = token}),
                StatusIs(absl::StatusCode::kCancelled));
    EXPECT_EQ(server.calls(), before + 1);
  }
}

TEST(Cancel, DestructionEndsCallsInFlight) {
  FakeServer server;
  Scripted hang;
  hang.hang = true;
  server.Script(std::vector<Scripted>(8, hang));
  auto client = Connect(server.target(), {.max_in_flight = 3});
  Input in({512, 1024});
  std::vector<std::future<absl::StatusOr<Result>>> futures;
  for (int i = 0; i < 3; ++i) {
    futures.push_back(client->QuantizeAsync(in.desc, in.data, Nvfp4()));
  }
  server.WaitForHanging(3);
  const auto start = steady_clock::now();
  client.reset();
  EXPECT_LT(Seconds(start), kAtOnce);
  for (auto& f : futures) {
    EXPECT_THAT(f.get(), StatusIs(absl::StatusCode::kCancelled));
  }
}

TEST(Async, LimitsCallsInFlight) {
  FakeServer server;
  Scripted hang;
  hang.hang = true;
  server.Script({hang, hang});
  const auto client = Connect(server.target(), {.max_in_flight = 2});
  Input in({1, 16});
  const CancellationToken token;
  auto a = client->QuantizeAsync(in.desc, in.data, Nvfp4(), {.cancel = token});
  auto b = client->QuantizeAsync(in.desc, in.data, Nvfp4(), {.cancel = token});
  server.WaitForHanging(2);
  auto c = client->QuantizeAsync(in.desc, in.data, Nvfp4(),
                                 {.deadline = milliseconds(100)});
  EXPECT_THAT(c.get(), StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_EQ(server.calls(), 2);
  token.Cancel();
  EXPECT_THAT(a.get(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_THAT(b.get(), StatusIs(absl::StatusCode::kCancelled));
  auto d = client->QuantizeAsync(in.desc, in.data, Nvfp4());
  EXPECT_THAT(d.get(), IsOk());
}

}  // namespace
}  // namespace quantd
