// Tests of the effects of tokens and priorities on calls.

#include "tests/client/temp_dir.h"
#include "tests/server/server_fixture.h"
#include "tests/server/test_peer.h"

namespace quantd {
namespace {

using testing::HasSubstr;

// The SHA-256 of "secret" and of "other".
constexpr char kSecretHash[] =
    "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
constexpr char kOtherHash[] =
    "d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa";

class CallersTest : public ServerTest {
 protected:
  void Tokens(const std::string& secret, const std::string& other) {
    WriteFile(dir_ / "tokens", kSecretHash + ("  one " + secret) + "\n" +
                                   kOtherHash + ("  two " + other) + "\n");
    options_.token_file = dir_ / "tokens";
    options_.metrics_address = "127.0.0.1:0";
  }
  RpcResult By(const std::string& token, const std::string& request,
               const std::string& priority = "",
               const std::string& method = "Quantize") {
    RpcOptions options;
    options.method = method;
    options.authorization = "Bearer " + token;
    if (!priority.empty()) {
      options.metadata = {{"quantd-priority", priority}};
    }
    options.declared = std::to_string(request.size());
    return Call(channel_, request, options);
  }

  const TempDir dir_;
  const std::string request_ = QuantizeOnes(2).SerializeAsString();
};

TEST_F(CallersTest, TokenPermitsTheMethodsOfItsLine) {
  Tokens("methods=Quantize,GetServerInfo", "");
  StartReal({"cpu"});
  EXPECT_TRUE(By("secret", request_).status.ok());
  EXPECT_TRUE(By("secret", "", "", "GetServerInfo").status.ok());
  for (const char* method : {"Dequantize", "DescribeQuantize", "RhtAmax"}) {
    EXPECT_EQ(By("secret", "", "", method).status.error_code(),
              grpc::PERMISSION_DENIED)
        << method;
    EXPECT_NE(By("other", "", "", method).status.error_code(),
              grpc::PERMISSION_DENIED)
        << method;
  }
  EXPECT_THAT(Get(server_->metrics_address(), "/metrics"),
              HasSubstr("quantd_unauthenticated_total{reason=\"forbidden\"} "
                        "3\n"));
}

TEST_F(CallersTest, StreamNeedsTheRightOfItsMethod) {
  Tokens("methods=Dequantize", "methods=Quantize");
  StartReal({"cpu"});
  v1::QuantizeRequest request = QuantizeOnes(2);
  const std::string payload = request.payload();
  request.clear_payload();
  v1::StreamRequest start;
  *start.mutable_quantize() = request;
  start.set_payload_bytes(payload.size());
  v1::StreamRequest chunk;
  chunk.set_chunk(payload);
  const auto stream = [&](const std::string& token) {
    RpcOptions options;
    options.method = "Stream";
    options.authorization = "Bearer " + token;
    RpcCall call(channel_, options);
    if (call.Send(start.SerializeAsString()) &&
        call.Send(chunk.SerializeAsString())) {
      call.HalfClose();
    }
    while (call.Receive()) {
    }
    return call.Finish().status.error_code();
  };
  EXPECT_EQ(stream("secret"), grpc::PERMISSION_DENIED);
  EXPECT_EQ(stream("other"), grpc::OK);
}

TEST_F(CallersTest, AcceptsPrioritiesAndRefusesOtherWords) {
  Tokens("priority=high", "");
  StartReal({"cpu"});
  for (const char* priority : {"high", "normal", "low"}) {
    EXPECT_TRUE(By("secret", request_, priority).status.ok()) << priority;
    // Without the right, a call for high priority is served at normal.
    EXPECT_TRUE(By("other", request_, priority).status.ok()) << priority;
  }
  const RpcResult wrong = By("secret", request_, "urgent");
  EXPECT_EQ(wrong.status.error_code(), grpc::INVALID_ARGUMENT);
  ASSERT_TRUE(wrong.detail);
  EXPECT_EQ(wrong.detail->field(), "quantd-priority");
}

}  // namespace
}  // namespace quantd
