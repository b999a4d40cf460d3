// A server that is asked wrongly, many times.
#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "server/refusal_pace.h"
#include "tests/server/server_fixture.h"

namespace quantd {
namespace {

TEST_F(ServerTest, WrongCallsAreAnsweredAtAPace) {
  StartFake();
  const int calls = RefusalPace::kAtOnce + RefusalPace::kPerSecond;
  const absl::Time start = absl::Now();
  for (int i = 0; i < calls; ++i) {
    RpcOptions options;
    if (i % 2 == 0) options.method = "NoSuchMethod";
    const RpcResult result = Call(channel_, "\xff\xff\xff", options);
    ASSERT_EQ(result.status.error_code(),
              i % 2 == 0 ? grpc::UNIMPLEMENTED : grpc::INVALID_ARGUMENT)
        << i << ": " << result.status.error_message();
  }
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(990));
  // Who asks rightly waits for nothing: refusals would be due in a second.
  std::vector<std::unique_ptr<RpcCall>> wrong;
  for (int i = 0; i < 100; ++i) {
    wrong.push_back(
        std::make_unique<RpcCall>(channel_, "/no.Such/Method", RpcOptions()));
  }
  EXPECT_TRUE(Call(channel_, QuantizeOnes(1).SerializeAsString()).status.ok());
  for (const auto& call : wrong) {
    EXPECT_EQ(call->Finish().status.error_code(), grpc::UNIMPLEMENTED);
  }
}

TEST_F(ServerTest, RefusalThatWaitsEndsWithItsCaller) {
  StartFake();
  for (int i = 0; i < RefusalPace::kAtOnce; ++i) {
    RpcCall(channel_, "/no.Such/Method", RpcOptions()).Finish();
  }
  std::vector<std::unique_ptr<RpcCall>> wrong;
  for (int i = 0; i < 100; ++i) {
    wrong.push_back(
        std::make_unique<RpcCall>(channel_, "/no.Such/Method", RpcOptions()));
  }
  for (const auto& call : wrong) call->Cancel();
  for (const auto& call : wrong) call->Finish();
}

}  // namespace
}  // namespace quantd
