// Tests of banded calls that fail: servers die, refuse, hang or send invalid
// replies, and callers cancel.
#include <signal.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/client/bands/banded.h"
#include "tests/client/calls.h"
#include "tests/client/fake_server.h"
#include "tests/client/gate.h"

namespace quantd {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

TEST(BandedCalls, SurviveServersThatDie) {
  auto a = Start({});
  const auto b = Start({});
  const Tensor x(32 << 10, 1024);
  QuantizeOptions o = Nvfp4();
  const auto expected = Connect(b->address())->Quantize(x.desc, x.bytes(), o);
  ASSERT_THAT(expected, IsOk());
  const auto client =
      Connect(a->address() + "," + b->address(), InBands(256 << 10));
  // Kills server a when a quarter of the bytes is done.
  std::atomic<bool> killed = false;
  CallOptions call;
  call.progress = [&](size_t done, size_t all) {
    if (done < all / 4 || killed.exchange(true)) return;
    a->Signal(SIGKILL);
  };
  const auto got = client->Quantize(x.desc, x.bytes(), o, call);
  ASSERT_THAT(got, IsOk());
  EXPECT_TRUE(killed);
  EXPECT_EQ(got->bands(), 8);
  ExpectSame(*expected, *got);
}

TEST(BandedCalls, FailWhenTheOnlyServerDies) {
  const auto server = Start({});
  Gate gate(server->address());
  gate.Open(3 * kMiB);
  ClientOptions options = InBands();
  options.retry.max_attempts = 2;
  const auto client = Connect(gate.target(), options);
  const Tensor x;
  const auto result = client->Quantize(x.desc, x.bytes(), Nvfp4());
  ASSERT_THAT(result, StatusIs(absl::StatusCode::kUnavailable));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("rows "));
  EXPECT_TRUE(GetRetryHint(result.status()));
}

TEST(BandedCalls, UseAServerThatTakesOnlySmallMessages) {
  const auto a =
      Start({"--max-request-bytes", "64KiB", "--memory-budget", "64MiB"});
  const auto b = Start({});
  const Tensor x;
  for (const bool given : {false, true}) {
    QuantizeOptions o = Nvfp4();
    if (given) o.rowwise_amax = {300.0f};
    const auto client = Connect(a->address() + "," + b->address(), InBands());
    const auto got = client->Quantize(x.desc, x.bytes(), o);
    ASSERT_THAT(got, IsOk());
    EXPECT_EQ(got->bands(), given ? 9 : 7);
    if (given) {
      EXPECT_EQ(got->attempts(), 9) << "each band is sent once";
    }
    ExpectSame(*Connect(b->address())->Quantize(x.desc, x.bytes(), o), *got);
  }
}

Scripted Hang() {
  Scripted s;
  s.hang = true;
  return s;
}

class ScriptedBands : public testing::Test {
 protected:
  std::unique_ptr<Client> Both() {
    return Connect(a_.target() + "," + b_.target(), InBands());
  }
  static QuantizeOptions Given() {
    QuantizeOptions o = Nvfp4();
    o.rowwise_amax = {1.0f};
    return o;
  }
  FakeServer a_;
  FakeServer b_;
  const Tensor x_{8192, 1024};
};

TEST_F(ScriptedBands, UseAllConnectionsToAllServers) {
  const auto client = Both();
  // Makes calls until both servers are known to serve.
  for (int i = 0; i < 2000 && (a_.calls() == 0 || b_.calls() == 0); ++i) {
    ASSERT_THAT(client->GetServerInfo(), IsOk());
    std::this_thread::sleep_for(milliseconds(5));
  }
  a_.Script({Hang(), Hang()});
  b_.Script({Hang(), Hang()});
  CallOptions call;
  call.cancel.emplace();
  auto future = client->QuantizeAsync(x_.desc, x_.bytes(), Given(), call);
  a_.WaitForHanging(2);
  b_.WaitForHanging(2);
  const auto start = steady_clock::now();
  call.cancel->Cancel();
  EXPECT_THAT(future.get(), StatusIs(absl::StatusCode::kCancelled));
  EXPECT_LT(Seconds(start), kAtOnce);
}

TEST_F(ScriptedBands, MoveAwayFromABusyServer) {
  a_.Script(std::vector<Scripted>(64, Busy(20)));
  const auto result = Both()->Quantize(x_.desc, x_.bytes(), Given());
  ASSERT_THAT(result, IsOk());
  EXPECT_EQ(result->bands(), 16);
  EXPECT_EQ(b_.calls(), 16);
}

TEST_F(ScriptedBands, EndWhenOneBandFailsPermanently) {
  Scripted wrong = Failure(grpc::StatusCode::INTERNAL, "broken");
  wrong.request_id = "the-id";
  a_.Script({Hang(), wrong, Hang(), Hang()});
  const auto client = Connect(a_.target(), InBands());
  const auto start = steady_clock::now();
  const auto result = client->Quantize(x_.desc, x_.bytes(), Given());
  ASSERT_THAT(result, StatusIs(absl::StatusCode::kInternal));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("rows "));
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("broken"));
  EXPECT_EQ(GetRequestId(result.status()), "the-id");
  // Each of the two connections carries at most two bands.
  EXPECT_LE(a_.calls(), 4);
  EXPECT_LT(Seconds(start), kAtOnce);
}

TEST_F(ScriptedBands, EndWhenCancelledInEitherPass) {
  for (const bool given : {true, false}) {
    a_.Script({{}, {}, {}, Hang()});
    auto client = Connect(a_.target(), InBands());
    CallOptions call;
    call.cancel.emplace();
    QuantizeOptions o = given ? Given() : Nvfp4();
    auto future = client->QuantizeAsync(x_.desc, x_.bytes(), o, call);
    a_.WaitForHanging(given ? 1 : 2);
    call.cancel->Cancel();
    const auto result = future.get();
    ASSERT_THAT(result, StatusIs(absl::StatusCode::kCancelled));
    EXPECT_EQ(result.status().message(), "cancelled by the caller");
  }
  // Destroying the client cancels the call, too.
  a_.Script({{}, Hang()});
  auto client = Connect(a_.target(), InBands());
  auto future = client->QuantizeAsync(x_.desc, x_.bytes(), Given());
  a_.WaitForHanging(3);
  client.reset();
  EXPECT_THAT(future.get(), StatusIs(absl::StatusCode::kCancelled));
}

TEST_F(ScriptedBands, EndAtTheirDeadline) {
  a_.Script({{}, {}, {}, Hang(), Hang()});
  const auto client = Connect(a_.target(), InBands());
  CallOptions call;
  call.deadline = milliseconds(500);
  size_t done = 0;
  call.progress = [&](size_t some, size_t) { done = some; };
  const auto start = steady_clock::now();
  const auto result = client->Quantize(x_.desc, x_.bytes(), Given(), call);
  ASSERT_THAT(result, StatusIs(absl::StatusCode::kDeadlineExceeded));
  EXPECT_LT(Seconds(start), kAtOnce);
  EXPECT_GE(Seconds(start), 0.4);
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("rows "));
  EXPECT_GT(done, 0u);
  EXPECT_LT(done, x_.bytes().size());
}

}  // namespace
}  // namespace quantd
