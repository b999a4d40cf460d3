// Tests that calls that wait, are cut off or arrive too late release all
// memory.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "quantd.grpc.pb.h"
#include "tests/server/server_fixture.h"

namespace quantd {
namespace {

using v1::ErrorDetail;

// A request of 8 MiB. The budget of these tests holds one of them, not two.
const std::string& LargeRequest() {
  static const std::string request = QuantizeOnes(4096).SerializeAsString();
  return request;
}
// A request of 128 KiB, too large to run on the network thread.
const std::string& SmallRequest() {
  static const std::string request = QuantizeOnes(64).SerializeAsString();
  return request;
}

RpcOptions Declared(const std::string& request,
                    absl::Duration deadline = absl::Minutes(2)) {
  RpcOptions options;
  options.declared = std::to_string(request.size());
  options.deadline = deadline;
  return options;
}

// Sends a request. The caller reads the result later.
std::unique_ptr<RpcCall> StartCall(
    const std::shared_ptr<grpc::Channel>& channel, const std::string& request,
    absl::Duration deadline = absl::Minutes(2)) {
  auto call = std::make_unique<RpcCall>(channel, Declared(request, deadline));
  EXPECT_TRUE(call->Send(request));
  EXPECT_TRUE(call->HalfClose());
  return call;
}

// Ends calls in each stage. The parameter selects cancellation or the deadline.
class StageTest : public ServerTest, public testing::WithParamInterface<bool> {
 protected:
  void Start(int slots = 2) {
    StartFake(slots);
    // Measures a whole call, as an upper bound of the time to reach a stage.
    const absl::Time start = absl::Now();
    ASSERT_TRUE(
        Call(channel_, LargeRequest(), Declared(LargeRequest())).status.ok());
    deadline_ = std::max(absl::Milliseconds(400), 10 * (absl::Now() - start));
    ASSERT_TRUE(UsedBecomes(0));
    begun_ = control_.begun();
  }
  bool cancels() const { return GetParam(); }
  absl::Duration deadline() const {
    return cancels() ? absl::Minutes(2) : deadline_;
  }
  // Returns the number of jobs since the fixture started.
  int begun() { return control_.begun() - begun_; }
  void Leave(RpcCall* call) {
    if (cancels()) call->Cancel();
    const RpcResult result = call->Finish();
    EXPECT_EQ(result.status.error_code(),
              cancels() ? grpc::CANCELLED : grpc::DEADLINE_EXCEEDED)
        << result.status.error_message();
  }
  bool UsedBecomes(size_t bytes) {
    return Eventually([&] { return server_->gate().used() == bytes; });
  }

 private:
  absl::Duration deadline_;
  int begun_ = 0;
};

TEST_P(StageTest, WaitingForMemory) {
  options_.memory_budget = 28 << 20;
  Start();
  control_.Close();
  auto first = StartCall(channel_, LargeRequest());
  ASSERT_TRUE(control_.AwaitRunning(1));
  const size_t used = server_->gate().used();
  EXPECT_GT(used, 0u);
  auto second = StartCall(Dial(server_->address()), LargeRequest(), deadline());
  ASSERT_TRUE(Eventually([&] { return server_->gate().waiting() == 1; }));
  Leave(second.get());
  EXPECT_TRUE(Eventually([&] { return server_->gate().waiting() == 0; }));
  // The memory of the second message is released when its call ends.
  EXPECT_TRUE(UsedBecomes(used));
  control_.Open();
  EXPECT_TRUE(first->Receive().has_value());
  EXPECT_TRUE(first->Finish().status.ok());
}

TEST_P(StageTest, Receiving) {
  Start();
  RpcCall call(channel_, Declared(LargeRequest(), deadline()));
  ASSERT_TRUE(Eventually([&] { return server_->gate().used() > 0; }));
  Leave(&call);
  EXPECT_TRUE(UsedBecomes(0));
  EXPECT_EQ(begun(), 0);
}

TEST_P(StageTest, WaitingForASlot) {
  Start(1);
  control_.Close();
  auto first = StartCall(channel_, SmallRequest());
  ASSERT_TRUE(control_.AwaitRunning(1));
  const size_t used = server_->gate().used();
  auto second = StartCall(channel_, SmallRequest(), deadline());
  ASSERT_TRUE(Eventually([&] { return server_->gate().used() > used; }));
  Leave(second.get());
  // The memory is released while the slot is still in use.
  EXPECT_TRUE(UsedBecomes(used));
  control_.Open();
  EXPECT_TRUE(first->Receive().has_value());
  EXPECT_TRUE(first->Finish().status.ok());
  EXPECT_EQ(begun(), 1);
}

TEST_P(StageTest, Running) {
  Start();
  control_.Close();
  auto call = StartCall(channel_, SmallRequest(), deadline());
  ASSERT_TRUE(control_.AwaitRunning(1));
  Leave(call.get());
  control_.Open();
  EXPECT_TRUE(UsedBecomes(0));
}

TEST_P(StageTest, Replying) {
  Start();
  auto call = StartCall(channel_, LargeRequest(), deadline());
  // The client does not read, and 2 MiB of output do not fit into its window.
  ASSERT_TRUE(Eventually([&] {
    return begun() == 1 && server_->gate().receiving_used() == 0 &&
           server_->gate().used() > 0;
  }));
  Leave(call.get());
  EXPECT_TRUE(UsedBecomes(0));
}

INSTANTIATE_TEST_SUITE_P(Left, StageTest, testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "ByCancel" : "ByDeadline";
                         });

class PressureTest : public ServerTest {
 protected:
  void ExpectBusy(const RpcResult& result) {
    EXPECT_EQ(result.status.error_code(), grpc::RESOURCE_EXHAUSTED)
        << result.status.error_message();
    ASSERT_TRUE(result.detail.has_value());
    EXPECT_EQ(result.detail->reason(), ErrorDetail::REASON_BUSY);
    EXPECT_GT(result.detail->retry_delay_ms(), 0u);
    EXPECT_EQ(result.pushback, std::to_string(result.detail->retry_delay_ms()));
  }
};

TEST_F(PressureTest, ReportsBusyAfterTheLongestWait) {
  options_.memory_budget = 28 << 20;
  options_.max_wait = absl::Milliseconds(100);
  StartFake();
  control_.Close();
  auto first = StartCall(channel_, LargeRequest());
  ASSERT_TRUE(control_.AwaitRunning(1));
  auto waits = StartCall(channel_, LargeRequest());
  ExpectBusy(waits->Finish());
  control_.Open();
  EXPECT_TRUE(first->Receive().has_value());
  EXPECT_TRUE(first->Finish().status.ok());
}

TEST_F(PressureTest, ServesUndeclaredRequestsOneByOne) {
  options_.memory_budget = 28 << 20;  // a single reservation takes all of it
  StartFake();
  std::vector<std::thread> threads;
  std::atomic<int> served = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      if (Call(channel_, SmallRequest()).status.ok()) ++served;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served, 8);
}

TEST_F(PressureTest, EndsARequestThatNeverArrives) {
  StartFake();
  RpcCall call(channel_, Declared(LargeRequest(), absl::Hours(1)));
  ASSERT_TRUE(Eventually([&] { return server_->gate().used() > 0; }));
  EXPECT_TRUE(PassUntilUnused());
  const RpcResult result = call.Finish();
  EXPECT_EQ(result.status.error_code(), grpc::DEADLINE_EXCEEDED);
  ASSERT_TRUE(result.detail.has_value());
  EXPECT_EQ(result.detail->reason(), ErrorDetail::REASON_DEADLINE);
}

TEST_F(PressureTest, InfoAndHealthReplyWhileTheServerIsBusy) {
  StartFake(1);
  control_.Close();
  // A small request also occupies the network thread.
  auto tiny = StartCall(channel_, QuantizeOnes(1).SerializeAsString());
  ASSERT_TRUE(control_.AwaitRunning(1));
  auto stub = v1::Quantd::NewStub(Dial(server_->address()));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(2)));
  v1::GetServerInfoReply info;
  EXPECT_TRUE(stub->GetServerInfo(&context, {}, &info).ok());
  RpcCall health(channel_, "/grpc.health.v1.Health/Check", RpcOptions());
  ASSERT_TRUE(health.Send(""));
  EXPECT_EQ(health.Receive().value_or("none"), "\x08\x01");
  control_.Open();
  EXPECT_TRUE(tiny->Receive().has_value());
  EXPECT_TRUE(tiny->Finish().status.ok());
}

class DrainTest : public ServerTest {};

TEST_F(DrainTest, ChangesHealthThenRefusesAndFinishesAcceptedCalls) {
  StartFake(2);
  control_.Close();
  auto accepted = StartCall(channel_, SmallRequest());
  ASSERT_TRUE(control_.AwaitRunning(1));
  RpcCall watch(channel_, "/grpc.health.v1.Health/Watch", RpcOptions());
  ASSERT_TRUE(watch.Send(""));
  EXPECT_EQ(watch.Receive().value_or("none"), "\x08\x01");

  bool clean = false;
  // The drain delay is long enough for the next call to arrive on a slow
  // machine.
  std::thread drain([&] { clean = server_->Drain(absl::Seconds(3)); });
  EXPECT_EQ(watch.Receive().value_or("none"), "\x08\x02");
  // Health has changed, and calls are still accepted.
  auto late = StartCall(channel_, SmallRequest());
  EXPECT_TRUE(control_.AwaitRunning(2));
  EXPECT_TRUE(Eventually([&] { return server_->calls().draining(); }));
  const RpcResult refused =
      Call(channel_, SmallRequest(), Declared(SmallRequest()));
  EXPECT_EQ(refused.status.error_code(), grpc::UNAVAILABLE);
  ASSERT_TRUE(refused.detail.has_value());
  EXPECT_EQ(refused.detail->reason(), ErrorDetail::REASON_DRAINING);
  for (const wire::MethodSpec& row : wire::kMethods) {
    RpcCall call(channel_, row.path, RpcOptions());
    call.Send("");  // may fail, because the headers are already refused
    const RpcResult result = call.Finish();
    EXPECT_EQ(result.status.error_code(), grpc::UNAVAILABLE) << row.path;
    ASSERT_TRUE(result.detail.has_value());
    EXPECT_EQ(result.detail->reason(), ErrorDetail::REASON_DRAINING);
  }
  control_.Open();
  for (RpcCall* call : {accepted.get(), late.get()}) {
    EXPECT_TRUE(call->Receive().has_value());
    EXPECT_TRUE(call->Finish().status.ok());
  }
  drain.join();
  EXPECT_TRUE(clean);
  EXPECT_EQ(server_->gate().used(), 0u);
}

TEST_F(DrainTest, CancelsUnfinishedCallsAtTheTimeout) {
  options_.drain_timeout = absl::Milliseconds(300);
  StartFake();
  RpcCall silent(channel_, Declared(LargeRequest()));
  ASSERT_TRUE(Eventually([&] { return server_->gate().used() > 0; }));
  EXPECT_FALSE(server_->Drain(absl::ZeroDuration()));
  EXPECT_EQ(server_->gate().used(), 0u);
  EXPECT_NE(silent.Finish().status.error_code(), grpc::OK);
  server_.reset();
}

}  // namespace
}  // namespace quantd
